-- Settings of queues, and runs whose worker the leader chooses.

local TIME_TO_TAKE = 1000000 -- how long the worker that the leader chose may leave a due run, as in rules/placement.py

local function queue_row(name, queue)
  local weights = {}
  for share, weight in pairs(queue.weights or {}) do
    weights[#weights + 1] = share
    weights[#weights + 1] = weight
  end
  return {name, queue.paused_at or false, queue.reason or '', queue.weights and weights or false}
end

-- Whether the leader has to choose a worker for the run, or another worker.
local function needs_place(run)
  if run.state == 'running' or not run.ready then
    return false
  end
  if starts_with(run.route, '!leader\t') then
    return true
  end
  if not starts_with(run.route, '=') then
    return false
  end
  return not is_alive(get('nodes', string.sub(run.route, 2))) or run.ready + TIME_TO_TAKE <= now
end
