-- Runs that the leader is to find a place for: `Store.unplaced`.
--
-- ARGV     until_, limit
-- returns  {run id, job, due, place} for each, earliest first
-- Uses: lines runs nodes rows queues

local found = {}
for _, start in ipairs({'!leader\t', '='}) do
  local stop = start == '=' and '>' or '!leader\n'
  for _, name in ipairs(look('ZRANGEBYLEX', P .. 'lines', '[' .. start, '(' .. stop)) do
    local route, level = string.match(name, '^(.*)%z(%d)$')
    local key, offset = P .. 'line:' .. level .. ':' .. route, 0
    local page, mine = nil, 0
    repeat -- each line has as many as are wanted, at the most
      page = look('ZRANGEBYSCORE', key, '-inf', ask.until_, 'LIMIT', offset, ask.limit)
      for _, run in ipairs(runs_behind(page)) do
        if needs_a_place(run) and not is_paused(run.queue) then
          found[#found + 1] = run
          mine = mine + 1
        end
      end
      offset = offset + #page
    until #page < ask.limit or mine >= ask.limit
  end
end
table.sort(found, function(one, other)
  if one.ready ~= other.ready then
    return one.ready < other.ready
  end
  return one.id < other.id
end)
local said = {}
for place = 1, math.min(#found, ask.limit) do
  local run = found[place]
  local had = starts_with(run.route, '=') and string.sub(run.route, 2) or ''
  said[place] = {run.id, job_row(job_of(run.job)), run.due, had}
end
return said
