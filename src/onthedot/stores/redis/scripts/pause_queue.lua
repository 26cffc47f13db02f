-- Pauses a queue: `Store.pause_queue`.
-- ARGV     name, reason; rows: the most runs that this script takes from their gates
-- returns  the queue; the sweep that does the rest, or nil
-- Uses: lines runs gates finish nodes queues sweeps

local queue, sweep = queue_of(request.name) or {}, nil
check_no_sweep(queue, 'queue:' .. request.name)
queue.paused_at, queue.reason = queue.paused_at or now, request.reason
put('queues', request.name, queue)
if read_index('SCARD', P .. 'at_gates') <= request.rows then
  leave_queue_gates(request.name, read_index('SMEMBERS', P .. 'at_gates'))
else
  sweep = start_sweep(queue, 'queue:' .. request.name, {kind = 'pause', cursor = '0', counted = {0, 0}})
end
return {queue_row(request.name, queue), sweep or false}
