-- Queues: what somebody has said about one, and where the leader has put runs.

local TIME_TO_TAKE = 1000000 -- how long a worker that the leader has chosen may leave a run that is due lying

local function queue_row(name, queue)
  local weights = {}
  for share, weight in pairs(queue.weights or {}) do
    weights[#weights + 1] = share
    weights[#weights + 1] = weight
  end
  return {name, queue.paused_at or false, queue.reason or '', queue.weights and weights or false}
end

-- Whether the leader is to find a run a place, or another one.
local function needs_a_place(run)
  if run.state == 'running' or not run.ready then
    return false
  end
  if starts_with(run.route, '!leader\t') then
    return true
  end
  if not starts_with(run.route, '=') then
    return false
  end
  return not lives(find('nodes', string.sub(run.route, 2))) or run.ready + TIME_TO_TAKE <= now
end
