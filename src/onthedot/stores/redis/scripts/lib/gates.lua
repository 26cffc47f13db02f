-- Gates: who holds them, who waits, and to whom an open one passes.
--
-- holders:<key>   sorted set of run ids          waiting:<key>   sorted set by due instant
-- waited          those keys at which somebody waits, and the largest capacity that anyone there goes by
-- at_gates        the runs that hold a gate or wait at one
-- idle:<key>      the holders that it was passed to (`passed`) and that have not started; one that a node of an earlier
--                 version has armed may still be in it

local leaving = {} -- runs that end in this script, by id
local PAGE = 16 -- of those who wait: thousands may, and mostly one is wanted

local function note_gates(run)
  if run.blocked or (run.gates and #run.gates > 0) then
    sadd(P .. 'at_gates', run.id)
  else
    run.gates = nil
    srem(P .. 'at_gates', run.id)
  end
  keep('runs', run.id, run)
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
  return look('ZCARD', P .. 'holders:' .. key)
end

local function first_holder(key)
  return tonumber(look('ZRANGE', P .. 'holders:' .. key, 0, 0)[1] or 0)
end

local function take_gate(run, gate)
  zadd(P .. 'holders:' .. gate.key, run.id, run.id)
  run.gates = run.gates or {}
  run.gates[#run.gates + 1] = gate
  note_gates(run)
end

-- The run starts, or gives the gate up.
local function not_idle(run, gate)
  if gate.passed then
    gate.passed = nil
    srem(P .. 'idle:' .. gate.key, run.id)
  end
end

local function drop_place(run, gate)
  zrem(P .. 'holders:' .. gate.key, run.id)
  not_idle(run, gate)
end

-- The holders of a limit that do not run.
local function idle_holders(key)
  return filter(runs_behind(look('SMEMBERS', P .. 'idle:' .. key)), function(run)
    return run.state ~= 'running' and holds(run, key)
  end)
end

-- Who waits at a gate, in the order in which it will pass to them.
local function waiters(key)
  return runs_behind(look('ZRANGE', P .. 'waiting:' .. key, 0, -1))
end

local function block(run, gate)
  run.blocked = gate
  wait_not(run)
  zadd(P .. 'waiting:' .. gate.key, run.due, member(run.id))
  local widest = tonumber(call('HGET', P .. 'waited', gate.key) or 0)
  if gate.capacity > widest then
    call('HSET', P .. 'waited', gate.key, gate.capacity)
  end
  note_gates(run)
end

-- It waits at no gate any more.
local function unblock(run)
  local key = run.blocked.key
  zrem(P .. 'waiting:' .. key, member(run.id))
  left_gates[key] = true
  run.blocked = nil
  note_gates(run)
end

local function always()
  return true
end

-- The first run of the same job and target that is due before this one, has not begun, and is wanted.
local function first_earlier(run, wanted)
  local index, before, offset = P .. 'job:' .. run.job, '(' .. text(run.due), 0
  while true do
    local page = runs_behind(look('ZRANGEBYSCORE', index, '-inf', before, 'LIMIT', offset, PAGE))
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
-- whoever has reserved it.
local function first_older(run, at)
  return first_earlier(run, function(other)
    for _, gate in ipairs(other.gates or {}) do
      if gate.until_end then
        return false
      end
    end
    local in_time = not other.expires or other.expires > at or (other.state == 'reserved' and other.ready > at)
    local can_start = in_time and not other.blocked and not leaving[other.id]
    return can_start and is_slot(other.trigger)
  end)
end

-- A slot holds its overlap gate before it has asked for it.
local function put_first(run, gate, at)
  run.caught_up = at
  take_gate(run, gate)
  hint('runs', run.due)
end

-- Whether a slot that is due before this one takes the gate in its place.
local function put_older_first(heir, gate)
  local older = first_older(heir, heir.caught_up)
  if older then
    put_first(older, gate, heir.caught_up)
  end
  return older ~= nil
end

-- An open gate passes to those who have waited longest, as far as there is room by their own capacity: they hold it
-- from now on, and are ready. How many. Slots are caught up in order: an older one comes first.
local function pass_on(key)
  local widest = tonumber(call('HGET', P .. 'waited', key) or 0)
  local held, passed = count_holders(key), 0
  if held >= widest then
    return 0
  end
  local aside = 0 -- those whose own capacity leaves no room
  while held < widest do
    local page = runs_behind(look('ZRANGE', P .. 'waiting:' .. key, aside, aside + PAGE - 1))
    if #page == 0 then
      break
    end
    for _, heir in ipairs(page) do
      local gate = heir.blocked
      if held >= widest or held >= gate.capacity then
        aside = aside + 1
      elseif gate.until_end and heir.caught_up and put_older_first(heir, gate) then
        held, aside = held + 1, aside + 1
      else
        unblock(heir)
        if not gate.until_end then
          gate.passed = true
          sadd(P .. 'idle:' .. key, heir.id)
        end
        take_gate(heir, gate)
        heir.reason = nil
        wait(heir, heir.due)
        hint('runs', heir.due)
        held, passed = held + 1, passed + 1
      end
    end
  end
  return passed
end

-- Give up the gates for which `goes` says so; each passes to who has waited longest.
local function open_gates(run, goes)
  if not run.gates then
    return
  end
  local kept, opened = {}, {}
  for _, gate in ipairs(run.gates) do
    if goes(gate) then
      opened[#opened + 1] = gate
    else
      kept[#kept + 1] = gate
    end
  end
  if #opened == 0 then
    return
  end
  run.gates = kept
  note_gates(run)
  for _, gate in ipairs(opened) do
    drop_place(run, gate)
  end
  for _, gate in ipairs(opened) do
    pass_on(gate.key)
  end
end

-- The run is about to end: no gate passes to it any more.
local function leave_all_gates(run)
  if run.blocked then
    unblock(run)
  end
  leaving[run.id] = true
  open_gates(run, always)
end

local function while_running(gate)
  return not gate.until_end
end

-- Those of them that wait at gates are ready again, and places that others could use are given up: what they may hold,
-- and where they have to wait, is decided anew when they are armed.
local function stand_aside(runs)
  for _, run in ipairs(runs) do
    if run.state ~= 'running' and run.blocked then
      unblock(run)
      run.reason = nil
      wait(run, run.due)
    end
  end
  for _, run in ipairs(runs) do
    if run.state ~= 'running' then
      open_gates(run, while_running)
    end
  end
end
