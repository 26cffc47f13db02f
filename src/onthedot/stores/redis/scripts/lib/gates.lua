-- Gates: which runs hold them, which wait, and which is next.
--
-- holders:<key>   sorted set of run ids
-- waiting:<key>   sorted set of runs by due instant
-- waited          the keys at which runs wait, each with the largest capacity that one of these runs has
-- at_gates        the runs that hold a gate or wait at one
-- idle:<key>      the holders to which the gate was passed (`passed`) and that have not started. A holder that a node
--                 of an earlier version armed may still be in it.

local ending = {} -- runs that end in this script, by id
local PAGE = 16 -- waiting runs per read: thousands may wait, and mostly one is needed

local function put_gates(run)
  if run.blocked or (run.gates and #run.gates > 0) then
    sadd(P .. 'at_gates', run.id)
  else
    run.gates = nil
    srem(P .. 'at_gates', run.id)
  end
  put('runs', run.id, run)
end

local function holds(run, key)
  for _, gate in ipairs(run.gates or {}) do
    if gate.key == key then
      return true
    end
  end
  return false
end

local function count_holders(key)
  return read_index('ZCARD', P .. 'holders:' .. key)
end

local function first_holder(key)
  return tonumber(read_index('ZRANGE', P .. 'holders:' .. key, 0, 0)[1] or 0)
end

local function take_gate(run, gate)
  zadd(P .. 'holders:' .. gate.key, run.id, run.id)
  run.gates = run.gates or {}
  run.gates[#run.gates + 1] = gate
  put_gates(run)
end

-- The run starts or gives up the gate, so its place is not idle.
local function clear_idle(run, gate)
  if gate.passed then
    gate.passed = nil
    srem(P .. 'idle:' .. gate.key, run.id)
  end
end

local function remove_holder(run, gate)
  zrem(P .. 'holders:' .. gate.key, run.id)
  clear_idle(run, gate)
end

-- The holders of a limit that are not running.
local function idle_holders(key)
  return filter(load_runs(read_index('SMEMBERS', P .. 'idle:' .. key)), function(run)
    return run.state ~= 'running' and holds(run, key)
  end)
end

-- The runs that wait at a gate, in the order in which it passes to them.
local function waiters(key)
  return load_runs(read_index('ZRANGE', P .. 'waiting:' .. key, 0, -1))
end

local function block(run, gate)
  run.blocked = gate
  make_unavailable(run)
  zadd(P .. 'waiting:' .. gate.key, run.due, member(run.id))
  local widest = tonumber(call('HGET', P .. 'waited', gate.key) or 0)
  if gate.capacity > widest then
    call('HSET', P .. 'waited', gate.key, gate.capacity)
  end
  put_gates(run)
end

local function unblock(run)
  local key = run.blocked.key
  zrem(P .. 'waiting:' .. key, member(run.id))
  left_gates[key] = true
  run.blocked = nil
  put_gates(run)
end

local function always()
  return true
end

-- The first run of the same job and target that is due before this one, has not started, and is `wanted`.
local function first_earlier_run(run, wanted)
  local index, before, offset = P .. 'job:' .. run.job, '(' .. text(run.due), 0
  while true do
    local page = load_runs(read_index('ZRANGEBYSCORE', index, '-inf', before, 'LIMIT', offset, PAGE))
    for _, other in ipairs(page) do
      if other.target == run.target and other.state ~= 'running' and wanted(other) then
        return other
      end
    end
    if #page < PAGE then
      return nil
    end
    offset = offset + PAGE
  end
end

-- The first slot of the job that is due before this one, has not asked for its overlap gate, and can still start,
-- whichever node has reserved it.
local function first_older_slot(run, at)
  return first_earlier_run(run, function(other)
    for _, gate in ipairs(other.gates or {}) do
      if gate.until_end then
        return false
      end
    end
    local in_time = not other.expires or other.expires > at or (other.state == 'reserved' and other.ready > at)
    local can_start = in_time and not other.blocked and not ending[other.id]
    return can_start and is_slot(other.trigger)
  end)
end

-- Gives a slot its overlap gate before the slot has asked for it.
local function put_first(run, gate, at)
  run.caught_up = at
  take_gate(run, gate)
  hint('runs', run.due)
end

-- Gives the gate to an older slot instead of this one. Returns whether there is an older slot.
local function put_older_first(heir, gate)
  local older = first_older_slot(heir, heir.caught_up)
  if older then
    put_first(older, gate, heir.caught_up)
  end
  return older ~= nil
end

-- Passes an open gate to the runs that have waited longest, as far as there is room by their own capacity. They hold it
-- and are available again. Overdue slots start in order: an older slot comes first. Returns how many runs were freed.
local function pass_on(key)
  local widest = tonumber(call('HGET', P .. 'waited', key) or 0)
  local held, passed = count_holders(key), 0
  if held >= widest then
    return 0
  end
  local passed_over = 0 -- runs whose own capacity leaves no room, and slots behind an older one
  while held < widest do
    local page = load_runs(read_index('ZRANGE', P .. 'waiting:' .. key, passed_over, passed_over + PAGE - 1))
    if #page == 0 then
      break
    end
    for _, heir in ipairs(page) do
      local gate = heir.blocked
      if held >= widest or held >= gate.capacity then
        passed_over = passed_over + 1
      elseif gate.until_end and heir.caught_up and put_older_first(heir, gate) then
        held, passed_over = held + 1, passed_over + 1
      else
        unblock(heir)
        if not gate.until_end then
          gate.passed = true
          sadd(P .. 'idle:' .. key, heir.id)
        end
        take_gate(heir, gate)
        heir.reason = nil
        make_available(heir, heir.due)
        hint('runs', heir.due)
        held, passed = held + 1, passed + 1
      end
    end
  end
  return passed
end

-- Gives up the gates that `is_left` selects. Each passes to the runs that have waited longest.
local function open_gates(run, is_left)
  if not run.gates then
    return
  end
  local kept, left = {}, {}
  for _, gate in ipairs(run.gates) do
    if is_left(gate) then
      left[#left + 1] = gate
    else
      kept[#kept + 1] = gate
    end
  end
  if #left == 0 then
    return
  end
  run.gates = kept
  put_gates(run)
  for _, gate in ipairs(left) do
    remove_holder(run, gate)
  end
  for _, gate in ipairs(left) do
    pass_on(gate.key)
  end
end

-- Takes a run that is about to end from its gates. From now on no gate passes to it.
local function leave_all_gates(run)
  if run.blocked then
    unblock(run)
  end
  ending[run.id] = true
  open_gates(run, always)
end

-- Whether a run holds the gate only while it is running. An overlap gate is held until the run's end.
local function is_limit(gate)
  return not gate.until_end
end

-- Makes runs that wait at gates available again, and gives up places in limits that are not in use. `arm` decides again
-- which gates these runs get.
local function release_unused_gates(runs)
  for _, run in ipairs(runs) do
    if run.state ~= 'running' and run.blocked then
      unblock(run)
      run.reason = nil
      make_available(run, run.due)
    end
  end
  for _, run in ipairs(runs) do
    if run.state ~= 'running' then
      open_gates(run, is_limit)
    end
  end
end
