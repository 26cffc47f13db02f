-- A page of all live runs, in no order, for counts. A part of `Queries.count_runs` and others.
-- ARGV     cursor
-- returns  the next cursor, and {id, queue, state, due, incarnation or nil, 1 if that one holds it} of each run. A run
--          may come twice.
-- Uses:

local page = call('HSCAN', P .. 'runs', request.cursor, 'COUNT', 500)
local found = {}
for place = 2, #page[2], 2 do
  local run = read_packed('runs', page[2][place])
  local holder = run.inc or (starts_with(run.route, '=') and string.sub(run.route, 2)) or false
  found[#found + 1] = {run.id, run.queue, run.state, run.due, holder, run.inc and 1 or 0}
end
return {page[1], found}
