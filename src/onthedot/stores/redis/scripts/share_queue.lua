-- Shares a queue fairly, or ends that: `Store.share_queue`. Runs with a rank get a new one, by the new weights.
-- ARGV     name, weights; rows: the most runs whose rank this script removes
-- returns  the queue; the sweep that does the rest, or nil
-- Uses: lines runs gates finish nodes queues sweeps

local queue, routes, count = queue_of(request.name) or {}, {}, 0
check_no_sweep(queue, 'queue:' .. request.name)
queue.weights = request.weights
put('queues', request.name, queue)
for _, route in ipairs(read_index('ZRANGE', P .. 'ranked', 0, -1)) do
  local held = read_index('ZCARD', P .. 'ranked:' .. route)
  if string.match(route, '^~([^\t]*)') == request.name and held > 0 then
    routes[#routes + 1] = route
    count = count + held
  end
end
local sweep
if count <= request.rows then
  for _, route in ipairs(routes) do
    drop_turns(load_runs(read_index('ZRANGE', P .. 'ranked:' .. route, 0, -1)))
  end
else
  for _, route in ipairs(routes) do -- workers do not read `old_turns`, and new turns start with an empty line
    call('RENAME', P .. 'ranked:' .. route, P .. 'old_turns:' .. route)
  end
  sweep = start_sweep(queue, 'queue:' .. request.name, {kind = 'share', routes = routes, counted = {0, 0}})
end
call('DEL', P .. 'turns:' .. request.name)
hint('runs', now)
return {queue_row(request.name, queue), sweep or false}
