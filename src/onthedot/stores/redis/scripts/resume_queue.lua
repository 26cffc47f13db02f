-- Let a queue go on: `QueuesSlice.resume_queue`.
--
-- ARGV     name
-- returns  the queue
-- Uses: lines nodes queues

local queue = queue_of(ask.name) or {}
queue.paused_at, queue.reason = nil, nil
keep('queues', ask.name, queue)
hint('runs', now)
return queue_row(ask.name, queue)
