-- Ends the pause of a queue: `Store.resume_queue`.
-- ARGV     name
-- returns  the queue; false: no sweep is needed
-- Uses: lines runs gates finish nodes queues sweeps

local queue = queue_of(request.name) or {}
check_no_sweep(queue, 'queue:' .. request.name)
queue.paused_at, queue.reason = nil, nil
put('queues', request.name, queue)
hint('runs', now)
return {queue_row(request.name, queue), false}
