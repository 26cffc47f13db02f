-- Lists every run that an incarnation holds, and makes its earlier requests void: `Store.recover`.
-- ARGV     incarnation, void_below
-- returns  leases and jobs
-- Uses: lines runs rows

local node = get('nodes', request.incarnation)
if node and request.void_below > (node.void_below or 0) then
  node.void_below = request.void_below
  put('nodes', request.incarnation, node)
end
local runs = load_runs(read_index('SMEMBERS', P .. 'held:' .. request.incarnation))
table.sort(runs, function(one, other) return one.id < other.id end)
return leases_and_jobs(runs)
