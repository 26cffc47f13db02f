-- Places in limits that no living worker can use, as in rules/placement.py.

local MOST_NODES = 1000 -- those that have beaten last
local MOST_WAITING = 1000 -- of those who wait at a gate: there may be more, and the next recount looks at them

local function is_in(list, wanted)
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
    local names = look('ZREVRANGE', P .. 'beats', 0, MOST_NODES - 1)
    fetch('nodes', names)
    for _, incarnation in ipairs(names) do
      local node = find('nodes', incarnation)
      if lives(node) and not node.draining and is_in(node.roles, 'worker') then
        workers[#workers + 1] = node
      end
    end
  end
  return workers
end

local function serves(node, job, target)
  if not is_in(node.tasks, job.task) then
    return false
  elseif target then
    return node.id == target
  end
  local route = starts_with(job.route, '!leader\t') and string.sub(job.route, #'!leader\t' + 1) or job.route
  local queue, needed = string.match(route, '^([^\t]*)\t?(.*)$')
  for label in string.gmatch(needed, '[^,]+') do
    if not is_in(node.labels, label) then
      return false
    end
  end
  return is_in(node.queues, queue)
end

local known = {}
local function can_start(run)
  if run.state == 'reserved' and run.ready > now and lives(find('nodes', run.inc)) then
    return true
  end
  local name = run.job .. '\t' .. (run.target or '')
  if known[name] == nil then
    known[name] = false
    for _, node in ipairs(living_workers()) do
      known[name] = known[name] or serves(node, job_of(run.job), run.target)
    end
  end
  return known[name]
end

local function unable(runs)
  return filter(runs, function(run) return not can_start(run) end)
end

-- Give up one gate, without passing it on.
local function leave_place(run, key)
  local kept = {}
  for _, gate in ipairs(run.gates) do
    if gate.key == key then
      drop_place(run, gate)
    else
      kept[#kept + 1] = gate
    end
  end
  run.gates = kept
  note_gates(run)
end

-- A limit's places that passed to runs which no living worker can start go to others, if any can use them: `wanted` says
-- that somebody asks for one. Those runs, and all like them that wait there, are ready, hold no place, and ask again when
-- a worker for them is back.
local function take_back(key, wanted)
  local stuck = unable(idle_holders(key))
  if #stuck == 0 then
    return
  end
  local waiting = runs_behind(look('ZRANGE', P .. 'waiting:' .. key, 0, MOST_WAITING - 1))
  local gone = unable(waiting)
  if not wanted and #gone == #waiting and #waiting < MOST_WAITING then
    return
  end
  for _, run in ipairs(gone) do
    unblock(run)
    run.reason = nil
    wait(run, run.due)
  end
  for _, run in ipairs(stuck) do
    leave_place(run, key)
  end
  pass_on(key)
end
