-- Share a queue fairly, or not: `Store.share_queue`. Who has a rank is lined up anew, by the new weights.
--
-- ARGV     name, weights; rows: how many runs at the most
-- returns  the queue; the sweep that is left, or nothing
-- Uses: lines runs gates finish nodes queues sweeps

local queue, routes, count = queue_of(ask.name) or {}, {}, 0
check_settled(queue, 'queue:' .. ask.name)
queue.weights = ask.weights
keep('queues', ask.name, queue)
for _, route in ipairs(look('ZRANGE', P .. 'ranked', 0, -1)) do
  local held = look('ZCARD', P .. 'ranked:' .. route)
  if string.match(route, '^~([^\t]*)') == ask.name and held > 0 then
    routes[#routes + 1] = route
    count = count + held
  end
end
local left
if count <= ask.rows then
  for _, route in ipairs(routes) do
    give_up_turns(runs_behind(look('ZRANGE', P .. 'ranked:' .. route, 0, -1)))
  end
else
  for _, route in ipairs(routes) do -- out of the way of new turns: nobody takes them from here
    call('RENAME', P .. 'ranked:' .. route, P .. 'old_turns:' .. route)
  end
  left = begin_sweep(queue, 'queue:' .. ask.name, {kind = 'share', routes = routes, counted = {0, 0}})
end
call('DEL', P .. 'turns:' .. ask.name)
hint('runs', now)
return {queue_row(ask.name, queue), left or false}
