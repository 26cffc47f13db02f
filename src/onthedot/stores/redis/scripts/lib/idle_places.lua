-- Places in limits whose runs no living worker can start. As `Serving` in rules/placement.py.

local MOST_NODES = 1000 -- nodes that are read: those with the newest heartbeats
local MOST_WAITING = 1000 -- waiting runs that are read at a gate; the next recount reads the others

local function contains(list, wanted)
  for _, one in ipairs(list or {}) do
    if one == wanted then
      return true
    end
  end
  return false
end

local workers
local function living_workers()
  if not workers then
    workers = {}
    local names = read_index('ZREVRANGE', P .. 'beats', 0, MOST_NODES - 1)
    preload('nodes', names)
    for _, incarnation in ipairs(names) do
      local node = get('nodes', incarnation)
      if is_alive(node) and not node.draining and contains(node.roles, 'worker') then
        workers[#workers + 1] = node
      end
    end
  end
  return workers
end

local function serves(node, job, target)
  if not contains(node.tasks, job.task) then
    return false
  elseif target then
    return node.id == target
  end
  local route = starts_with(job.route, '!leader\t') and string.sub(job.route, #'!leader\t' + 1) or job.route
  local queue, needed = string.match(route, '^([^\t]*)\t?(.*)$')
  for label in string.gmatch(needed, '[^,]+') do
    if not contains(node.labels, label) then
      return false
    end
  end
  return contains(node.queues, queue)
end

local startable = {}
local function can_start(run)
  if run.state == 'reserved' and run.ready > now and is_alive(get('nodes', run.inc)) then
    return true
  end
  local name = run.job .. '\t' .. (run.target or '')
  if startable[name] == nil then
    startable[name] = false
    for _, node in ipairs(living_workers()) do
      startable[name] = startable[name] or serves(node, job_of(run.job), run.target)
    end
  end
  return startable[name]
end

local function unable_to_start(runs)
  return filter(runs, function(run) return not can_start(run) end)
end

-- Gives up one gate without passing it on.
local function leave_gate(run, key)
  local kept = {}
  for _, gate in ipairs(run.gates) do
    if gate.key == key then
      remove_holder(run, gate)
    else
      kept[#kept + 1] = gate
    end
  end
  run.gates = kept
  put_gates(run)
end

-- Gives places of a limit to other runs if no living worker can start their holders, and another run can use them.
-- `wanted` is true if a run asks for a place now. The stuck holders, and waiting runs like them, become available
-- without a place. They ask again when a worker for them is back.
local function take_back(key, wanted)
  local stuck = unable_to_start(idle_holders(key))
  if #stuck == 0 then
    return
  end
  local waiting = load_runs(read_index('ZRANGE', P .. 'waiting:' .. key, 0, MOST_WAITING - 1))
  local stuck_waiting = unable_to_start(waiting)
  if not wanted and #stuck_waiting == #waiting and #waiting < MOST_WAITING then
    return
  end
  for _, run in ipairs(stuck_waiting) do
    unblock(run)
    run.reason = nil
    make_available(run, run.due)
  end
  for _, run in ipairs(stuck) do
    leave_gate(run, key)
  end
  pass_on(key)
end
