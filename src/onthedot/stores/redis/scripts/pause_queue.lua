-- Stop a queue: `QueuesSlice.pause_queue`.
--
-- ARGV     name, reason
-- returns  the queue
-- Uses: lines runs gates nodes queues

local queue = queue_of(ask.name) or {}
queue.paused_at, queue.reason = queue.paused_at or now, ask.reason
keep('queues', ask.name, queue)
local mine = {}
for _, run in ipairs(runs_behind(look('SMEMBERS', P .. 'at_gates'))) do
  if run.queue == ask.name then
    mine[#mine + 1] = run
  end
end
table.sort(mine, function(one, other) return one.id < other.id end)
stand_aside(mine)
return queue_row(ask.name, queue)
