-- Every run that an incarnation holds; earlier asks of it are void: `Store.held`.
--
-- ARGV     incarnation, void_below
-- returns  leases and jobs
-- Uses: lines runs rows

local node = find('nodes', ask.incarnation)
if node and ask.void_below > (node.void_below or 0) then
  node.void_below = ask.void_below
  keep('nodes', ask.incarnation, node)
end
local runs = runs_behind(look('SMEMBERS', P .. 'held:' .. ask.incarnation))
table.sort(runs, function(one, other) return one.id < other.id end)
return leases_and_jobs(runs)
