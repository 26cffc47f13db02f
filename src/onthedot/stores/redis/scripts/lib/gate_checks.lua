-- Checks a run at its gates and its rate, for `arm`: it passes, waits, or is skipped. As in stores/sql/arm.py.
--
-- asked: gates {key, capacity, until_end}, on_busy {action, max_waiting, overdue, late}, rate {key, most, per, burst}

local MOST_READ = 1000 -- records of an index; at an overlap gate runs end one after the other, so the last are enough

-- The first `wanted` record of an index, from high scores to low ones, of the first `MOST_READ`.
local function first_behind(what, index, low, wanted)
  local offset = 0
  while offset < MOST_READ do
    local ids = ids_of(read_index('ZREVRANGEBYSCORE', index, '+inf', low, 'LIMIT', offset, PAGE))
    preload(what, ids)
    for _, id in ipairs(ids) do
      local record = get(what, id)
      if record and wanted(record) then
        return record
      end
    end
    if #ids < PAGE then
      return nil
    end
    offset = offset + PAGE
  end
  return nil
end

-- The run of a newer slot of the same schedule that has ended after its turn, or of the newest slot that is due. 0 if
-- that slot is not planned yet, nil if there is none.
local function newer_slot(run)
  local newer = first_behind('history', ended_key(run.job), text(run.due), function(ended)
    return ended.trigger == run.trigger and ended.target == run.target and ended.slot > run.slot
      and (ended.attempt > 0 or (ended.state == 'skipped' and ended.reason == 'overlap'))
  end) or first_behind('runs', P .. 'slots:' .. run.job .. ':' .. run.trigger, '(' .. text(run.slot), function(other)
    return other.due <= now and other.target == run.target
  end)
  if newer then
    return newer.id
  end
  local state = schedules_of(run.job)[string.sub(run.trigger, #'schedule:' + 1)]
  return state and state.next_at and state.next_at <= now and 0 or nil
end

-- The holders of a gate, and the first and last few runs that wait there.
local function runs_at(gate)
  local waiting, found = P .. 'waiting:' .. gate.key, {}
  for _, range in ipairs({{P .. 'holders:' .. gate.key, 0, -1}, {waiting, 0, PAGE - 1}, {waiting, -PAGE, -1}}) do
    for _, run in ipairs(load_runs(read_index('ZRANGE', unpack(range)))) do
      found[#found + 1] = run
    end
  end
  return found
end

-- Whether the run was already due when slots at this gate were caught up. Then it is one of them.
local function is_caught_up(run, gate)
  return #filter(runs_at(gate), function(other) return other.caught_up and other.caught_up >= run.due end) > 0
end

-- The newest slot of any schedule at a full gate, if it is newer than this one.
local function newer_at(run, gate)
  local newest = run
  for _, other in ipairs(count_holders(gate.key) >= gate.capacity and runs_at(gate) or {}) do
    if is_slot(other.trigger) and other.slot > newest.slot then
      newest = other
    end
  end
  return newest ~= run and newest.id or nil
end

-- Why a slot is skipped, with the run that blocked it.
local function why_skipped(reason, other)
  if reason == 'overlap' then
    return 'run ' .. other .. ' of this job had not ended'
  elseif other == 0 then
    return 'a newer slot was due'
  end
  return 'run ' .. other .. (reason == 'replaced' and ' replaced it' or ' is for a newer slot')
end

-- Applies the rule for overdue slots: skips the run, or makes it wait behind the slots that are due before it. Returns
-- the answer if the run is skipped, and what it does at a closed gate.
local function catch_up(run, gate, busy)
  local newer = newer_slot(run) or (busy.overdue == 'replaced' and busy.late and newer_at(run, gate))
  if busy.overdue ~= 'wait' then
    if not newer then
      return nil, busy
    end
    skip(run, busy.overdue, now, why_skipped(busy.overdue, newer))
    return {'skipped', gate.key, newer, busy.overdue}, busy
  end
  local older = first_older_slot(run, now)
  if older and count_holders(gate.key) < gate.capacity then
    put_first(older, gate, now)
  end
  if not busy.late and not newer and not older and not is_caught_up(run, gate) then
    return nil, busy
  end
  run.caught_up = now
  put('runs', run.id, run)
  return nil, {action = 'wait'}
end

-- A slot that waits at a gate, or was granted an instant, is not missed, so it does not expire any more. A submitted
-- run keeps its expiry.
local function stop_expiry(run)
  if is_slot(run.trigger) then
    set_expiry(run, nil)
  end
end

-- Gives up all gates except the first `count`. A run that `waits` also gives up its places in limits, because others
-- could use them.
local function leave_other_gates(run, gates, count, waits)
  local kept = {}
  for place = 1, count do
    kept[gates[place].key] = gates[place].until_end or not waits
  end
  open_gates(run, function(gate) return not kept[gate.key] end)
end

local function leave_taken_gates(run, taken)
  open_gates(run, function(gate) return taken[gate.key] end)
end

-- The holders of a gate that lose their places to a run that could start now. nil if there are too few of them. As
-- `giving_way` in rules/gates.py.
local function holders_to_displace(run, gate)
  local needed = count_holders(gate.key) - gate.capacity + 1
  if holds(run, gate.key) or needed <= 0 then
    return {}
  elseif gate.until_end then
    return nil
  end
  local younger, chosen = filter(idle_holders(gate.key), function(holder)
    return holder.due > run.due or (holder.due == run.due and holder.id > run.id)
  end), {}
  table.sort(younger, function(one, other)
    return one.due > other.due or (one.due == other.due and one.id > other.id)
  end)
  for place = 1, needed do
    chosen[place] = younger[place]
  end
  return #chosen == needed and chosen or nil
end

-- Takes places at the gate from younger runs that are not running, if the run can then pass this gate and all later
-- ones. The younger runs stay available, and ask again when they are armed.
local function displace(run, gates, place)
  for later = place, #gates do
    if not holders_to_displace(run, gates[later]) then
      return false
    end
  end
  for _, holder in ipairs(holders_to_displace(run, gates[place])) do
    leave_gate(holder, gates[place].key)
  end
  return true
end

-- Delays a run to a later instant. Meanwhile other runs can use its places in limits.
local function delay(run, gate, until_)
  run.delayed_under = run.lease
  clear_lease(run)
  run.state = 'scheduled'
  stop_expiry(run)
  run.reason = 'waits at ' .. gate.key .. ', starts at ' .. iso(until_)
  set_due(run, until_)
  run.granted_at, run.granted_by = until_, gate.key
  make_available(run, until_)
  open_gates(run, is_limit)
  hint('runs', until_)
  return {'delayed', gate.key, until_}
end

-- Checks the rate. Returns nil if the run may start at its instant. Otherwise a due run is delayed.
local function pass_rate(run, gate, due)
  local start = math.max(now, run.due) -- a run that is armed ahead starts when it is due
  local granted_at = run.granted_by == gate.key and run.granted_at or nil
  local instant, tat = next_start(gate, get('rates', gate.key), start, granted_at)
  if instant > start and not due then
    return {'busy', gate.key, 0}
  end
  if tat then
    put('rates', gate.key, tat)
    zadd(P .. 'rated', tat.whole, gate.key)
  end
  if instant > start then
    return delay(run, gate, instant)
  end
  return nil
end

-- The slots that wait at a gate, except overdue ones.
local function waiting_slots(gate)
  return filter(waiters(gate.key), function(run) return is_slot(run.trigger) and not run.caught_up end)
end

-- Replaces older slots: ends those that wait or back off, and asks a running one to stop. Submitted runs stay.
--
-- A replaced run hands its rate grant to its successor. Otherwise slots that come faster than the rate would replace
-- each other for ever, and none would start.
local function replace_holders(run, gate)
  for _, waiting in ipairs(waiting_slots(gate)) do
    skip(waiting, 'replaced', now, why_skipped('replaced', run.id))
  end
  for _, holder in ipairs(load_runs(read_index('ZRANGE', P .. 'holders:' .. gate.key, 0, -1))) do
    local is_replaced = is_slot(holder.trigger) and not holder.caught_up
    if is_replaced and holder.state == 'running' then
      ask_to_stop(holder, 'replaced', now)
    elseif is_replaced then
      if not run.granted_at then
        run.granted_at, run.granted_by = holder.granted_at, holder.granted_by
      end
      holder.reason = 'replaced'
      end_run(holder, 'cancelled', now)
    end
  end
end

local function wait_or_skip(run, asked, busy, place)
  local gate = asked.gates[place]
  local holder = first_holder(gate.key)
  if gate.until_end then
    local full = busy.max_waiting and #waiting_slots(gate) >= busy.max_waiting
    if busy.action == 'skip' or full then
      skip(run, 'overlap', now, why_skipped('overlap', holder))
      return {'skipped', gate.key, holder, 'overlap'}
    end
  end
  leave_other_gates(run, asked.gates, place - 1, true)
  clear_lease(run)
  run.state = 'scheduled'
  stop_expiry(run)
  run.reason = 'waits for run ' .. holder
  block(run, gate)
  return {'blocked', gate.key, holder}
end

-- Takes the run's gates in order. Returns nil if the run has all of them, else the answer of `arm`.
local function pass_gates(run, asked)
  local taken, busy = {}, asked.on_busy
  for place, gate in ipairs(asked.gates) do
    if not holds(run, gate.key) then
      local earlier = gate.until_end and not busy and first_earlier_run(run, always)
      if earlier then
        leave_taken_gates(run, taken)
        return {'busy', gate.key, earlier.id}
      end
      if gate.until_end and busy and busy.overdue then
        local skipped
        skipped, busy = catch_up(run, gate, busy)
        if skipped then
          return skipped
        end
      end
      if busy and busy.action == 'replace' and gate.until_end
        and count_holders(gate.key) >= gate.capacity then
        replace_holders(run, gate)
      end
      if count_holders(gate.key) >= gate.capacity and asked.on_busy and not gate.until_end then
        take_back(gate.key, true)
      end
      local full = count_holders(gate.key) >= gate.capacity
      local displaced = full and asked.on_busy and displace(run, asked.gates, place)
      if not full or displaced then
        take_gate(run, gate)
        taken[gate.key] = true
        if displaced then
          pass_on(gate.key)
        end
      elseif not busy then
        leave_taken_gates(run, taken)
        return {'busy', gate.key, first_holder(gate.key)}
      else
        return wait_or_skip(run, asked, busy, place)
      end
    end
  end
  local closed = asked.rate and pass_rate(run, asked.rate, asked.on_busy ~= nil)
  if closed and closed[1] == 'busy' then
    leave_taken_gates(run, taken)
  else
    leave_other_gates(run, asked.gates, #asked.gates)
  end
  return closed
end
