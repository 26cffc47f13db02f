-- Runs whose worker the leader has to choose: `Queries.list_unassigned`.
-- ARGV     until_, limit
-- returns  {run id, job, due, incarnation that had it or ''} for each, earliest first
-- Uses: lines runs nodes rows queues

local found = {}
for _, start in ipairs({'!leader\t', '='}) do
  local stop = start == '=' and '>' or '!leader\n'
  for _, name in ipairs(read_index('ZRANGEBYLEX', P .. 'lines', '[' .. start, '(' .. stop)) do
    local route, level = string.match(name, '^(.*)%z(%d)$')
    local key, offset = P .. 'line:' .. level .. ':' .. route, 0
    local page, mine = nil, 0
    repeat -- at most `limit` runs of each line
      page = read_index('ZRANGEBYSCORE', key, '-inf', request.until_, 'LIMIT', offset, request.limit)
      for _, run in ipairs(load_runs(page)) do
        if needs_place(run) and not is_paused(run.queue) then
          found[#found + 1] = run
          mine = mine + 1
        end
      end
      offset = offset + #page
    until #page < request.limit or mine >= request.limit
  end
end
table.sort(found, function(one, other)
  if one.ready ~= other.ready then
    return one.ready < other.ready
  end
  return one.id < other.id
end)
local rows = {}
for place = 1, math.min(#found, request.limit) do
  local run = found[place]
  local last_incarnation = starts_with(run.route, '=') and string.sub(run.route, 2) or ''
  rows[place] = {run.id, job_row(job_of(run.job)), run.due, last_incarnation}
end
return rows
