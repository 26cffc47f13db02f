-- Running attempts whose incarnation's lease has ended: `Store.orphans`.
--
-- ARGV     after, cursor: how far the script before has come: behind which node, by its number, and how far in what the
--          next one holds; rows: how many nodes and runs it looks at, about
-- returns  leases and jobs; and how far it has come, or nothing if it has seen all
-- Uses: lines runs nodes rows

local found, far = {}, false
local after, cursor, looked = ask.after, ask.cursor, 0
local known = look(
  'ZRANGEBYSCORE', P .. 'registered', '(' .. text(after), '+inf', 'WITHSCORES', 'LIMIT', 0, ask.rows
)
local names = {}
for place = 1, #known, 2 do
  names[#names + 1] = known[place]
end
fetch('nodes', names)
for place, incarnation in ipairs(names) do
  local more = not lives(find('nodes', incarnation))
  while more do
    local page = look('SSCAN', P .. 'held:' .. incarnation, cursor, 'COUNT', ask.rows)
    cursor = page[1]
    for _, run in ipairs(runs_behind(page[2])) do
      if run.state == 'running' then
        found[#found + 1] = run
      end
    end
    looked, more = looked + #page[2], cursor ~= '0'
    if more and looked >= ask.rows then
      return {leases_and_jobs(found), {after, cursor}}
    end
  end
  after, cursor, looked = tonumber(known[2 * place]), '0', looked + 1
  if looked >= ask.rows then
    far = {after, cursor}
    break
  end
end
return {leases_and_jobs(found), far}
