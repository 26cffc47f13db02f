-- Share a queue fairly, or not: `QueuesSlice.share_queue`. Who has a rank is lined up anew, by the new weights.
--
-- ARGV     name, weights
-- returns  the queue
-- Uses: lines runs nodes queues

local queue = queue_of(ask.name) or {}
queue.weights = ask.weights
keep('queues', ask.name, queue)
for _, route in ipairs(look('ZRANGE', P .. 'ranked', 0, -1)) do
  if string.match(route, '^~([^\t]*)') == ask.name then
    for _, run in ipairs(runs_behind(look('ZRANGE', P .. 'ranked:' .. route, 0, -1))) do
      run.route, run.rank = unranked(run.route), nil
      line_up(run)
    end
  end
end
call('DEL', P .. 'turns:' .. ask.name)
hint('runs', now)
return queue_row(ask.name, queue)
