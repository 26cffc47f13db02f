-- Lists running attempts whose incarnation's lease has ended: `Store.orphans`.
-- ARGV     after: the number of the last node that was read completely; cursor: in the runs of the next node
--          rows: about how many nodes and runs the script reads
-- returns  leases and jobs; {after, cursor} for the next script, or nil if it has read all
-- Uses: lines runs nodes rows

local found, next_position = {}, false
local after, cursor, read_count = request.after, request.cursor, 0
local registered = read_index(
  'ZRANGEBYSCORE', P .. 'registered', '(' .. text(after), '+inf', 'WITHSCORES', 'LIMIT', 0, request.rows
)
local names = {}
for place = 1, #registered, 2 do
  names[#names + 1] = registered[place]
end
preload('nodes', names)
for place, incarnation in ipairs(names) do
  local more = not is_alive(get('nodes', incarnation))
  while more do
    local page = read_index('SSCAN', P .. 'held:' .. incarnation, cursor, 'COUNT', request.rows)
    cursor = page[1]
    for _, run in ipairs(load_runs(page[2])) do
      if run.state == 'running' then
        found[#found + 1] = run
      end
    end
    read_count, more = read_count + #page[2], cursor ~= '0'
    if more and read_count >= request.rows then
      return {leases_and_jobs(found), {after, cursor}}
    end
  end
  after, cursor, read_count = tonumber(registered[2 * place]), '0', read_count + 1
  if read_count >= request.rows then
    next_position = {after, cursor}
    break
  end
end
return {leases_and_jobs(found), next_position}
