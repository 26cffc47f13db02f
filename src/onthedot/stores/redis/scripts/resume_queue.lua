-- Let a queue go on: `Store.resume_queue`.
--
-- ARGV     name
-- returns  the queue; nothing is left to do
-- Uses: lines runs gates finish nodes queues sweeps

local queue = queue_of(ask.name) or {}
check_settled(queue, 'queue:' .. ask.name)
queue.paused_at, queue.reason = nil, nil
keep('queues', ask.name, queue)
hint('runs', now)
return {queue_row(ask.name, queue), false}
