-- Stop a queue: `Store.pause_queue`.
--
-- ARGV     name, reason; rows: how many runs at the most
-- returns  the queue; the sweep that is left, or nothing
-- Uses: lines runs gates finish nodes queues sweeps

local queue, left = queue_of(ask.name) or {}, nil
check_settled(queue, 'queue:' .. ask.name)
queue.paused_at, queue.reason = queue.paused_at or now, ask.reason
keep('queues', ask.name, queue)
if look('SCARD', P .. 'at_gates') <= ask.rows then
  leave_gates(ask.name, look('SMEMBERS', P .. 'at_gates'))
else
  left = begin_sweep(queue, 'queue:' .. ask.name, {kind = 'pause', cursor = '0', counted = {0, 0}})
end
return {queue_row(ask.name, queue), left or false}
