-- Writes windows of slots: checks them, applies the exceptions of the schedule, and records runs and skips. As in
-- rules/window_writes.py.
--
-- window: schedule_id, start, end_, next_at, slots {slot, due, expires, args, share}, skips {first, last, count,
-- reason}, delay, targets

local EXCEPTION_KEPT = 3600 * 1000000 -- how long an exception is kept after its slot
local OF_THE_PAST = {missed = true, paused = true, edited = true}

local function fail_stale(message, watermark)
  fail('WindowStale', message, watermark, now)
end

-- Refuses a window that skips future slots for a reason of the past: the client's clock is wrong.
local function check_past(window)
  for _, skipped in ipairs(window.skips) do
    if OF_THE_PAST[skipped.reason] and skipped.last > now then
      fail_stale("schedule '" .. window.schedule_id .. "': slots up to " .. text(skipped.last) .. ' cannot be '
        .. skipped.reason .. ' at ' .. text(now) .. "; read the store's clock and compute it again", window.start)
    end
  end
end

-- Removes slots and skips up to the edge. The window then ends at the edge or later.
local function cut_window(window, edge)
  local slots, skips = {}, {}
  for _, slot in ipairs(window.slots) do
    if slot.slot > edge then
      slots[#slots + 1] = slot
    end
  end
  for _, skipped in ipairs(window.skips) do
    if skipped.first > edge then
      skips[#skips + 1] = skipped
    end
  end
  window.slots, window.skips, window.end_ = slots, skips, math.max(window.end_, edge)
end

-- Whether a range of skips contains an exception, and so would give that slot a second fate.
local function covers_exception(window, exceptions)
  for _, skipped in ipairs(window.skips) do
    for _, one in ipairs(exceptions or {}) do
      if skipped.first < skipped.last and skipped.first <= one.slot and one.slot <= skipped.last then
        return true
      end
    end
  end
  return false
end

local function check_exceptions(state, window)
  if state and covers_exception(window, state.exceptions) then
    fail_stale("schedule '" .. window.schedule_id .. "': a range of skips runs over an exception; read it again",
      state.watermark)
  end
end

-- The window with each exception as a skip. An exception that the ledger has already is left out.
local function settle(window, exceptions)
  if window.delay or not exceptions or #exceptions == 0 then
    return window
  end
  local by_slot, matched = {}, {}
  for _, one in ipairs(exceptions) do
    by_slot[text(one.slot)] = one
  end
  local slots, skips = {}, {}
  for _, slot in ipairs(window.slots) do
    local one = by_slot[text(slot.slot)]
    if one then
      matched[one] = true
    else
      slots[#slots + 1] = slot
    end
  end
  for _, skipped in ipairs(window.skips) do
    local one = skipped.first == skipped.last and by_slot[text(skipped.first)]
    if one then
      matched[one] = true
    else
      skips[#skips + 1] = skipped
    end
  end
  for one in pairs(matched) do
    if not one.recorded then
      skips[#skips + 1] = {first = one.slot, last = one.slot, count = 1, reason = one.reason}
    end
  end
  table.sort(skips, function(one, other) return one.first < other.first end)
  local settled = {}
  for name, value in pairs(window) do
    settled[name] = value
  end
  settled.slots, settled.skips = slots, skips
  return settled
end

-- ── the ledger's ranges ────────────────────────────────────────────────────────────────────────────────────

local function remove_skip(number)
  delete('skips', number)
  zrem(P .. 'skipped', number)
end

-- Records ranges of skips. A range that continues the schedule's last one, with no other slot between, extends it.
local function record_skips(job, schedule_id, state, window)
  local edge, field = window.start, job.id .. '\t' .. schedule_id
  for _, skipped in ipairs(window.skips) do
    local apart = false
    for _, slot in ipairs(window.slots) do
      apart = apart or (edge < slot.slot and slot.slot < skipped.first)
    end
    for _, one in ipairs(state.exceptions or {}) do
      apart = apart or (edge < one.slot and one.slot < skipped.first)
    end
    local entry = {
      job = job.id, schedule = schedule_id, first = skipped.first, last = skipped.last, count = skipped.count,
      reason = skipped.reason, recorded = now,
    }
    local number = call('HGET', P .. 'last_skips', field)
    local before = number and get('skips', number)
    if before and before.last == edge and before.reason == skipped.reason and not apart then
      entry.first, entry.count = before.first, before.count + skipped.count
      remove_skip(number)
      before = nil
    end
    local mine = next_number('skip')
    put('skips', mine, entry)
    zadd(P .. 'skipped', mine, mine)
    if not before or before.last <= entry.last then
      call('HSET', P .. 'last_skips', field, mine)
    end
    edge = skipped.last
    if skipped.reason == 'no_node' and skipped.last > now then
      raise_armed_to(job.id .. '\tschedule:' .. schedule_id, skipped.last)
    end
  end
end

-- Marks the exceptions that the window has recorded, and deletes old ones.
local function update_exceptions(state, window)
  local single, kept = {}, {}
  for _, skipped in ipairs(window.skips) do
    if skipped.first == skipped.last then
      single[text(skipped.first)] = true
    end
  end
  local oldest = math.min(window.end_, now) - EXCEPTION_KEPT
  for _, one in ipairs(state.exceptions or {}) do
    if one.slot > oldest then
      one.recorded = one.recorded or single[text(one.slot)] or nil
      kept[#kept + 1] = one
    end
  end
  state.exceptions = #kept > 0 and kept or nil
end

-- Stores an exception: a slot whose fate was decided ahead.
local function put_exception(state, fate)
  local kept = {fate}
  for _, one in ipairs(state.exceptions or {}) do
    if one.slot ~= fate.slot then
      kept[#kept + 1] = one
    end
  end
  table.sort(kept, function(one, other) return one.slot < other.slot end)
  state.exceptions = kept
end

-- Inserts a window's runs and skips and moves the watermark. Returns how many runs are new.
local function apply_window(job, state, window)
  local schedule_id, made = window.schedule_id, 0
  window = settle(window, state.exceptions)
  local first
  for _, slot in ipairs(window.slots) do
    local due = slot.due or slot.slot
    for _, target in ipairs(window.targets) do
      local _, new = insert(job, {
        trigger = 'schedule:' .. schedule_id, slot = slot.slot, target = target, due = due, expires = slot.expires,
        args = slot.args, share = slot.share,
      }, now)
      made = made + (new and 1 or 0)
    end
    first = math.min(first or due, due)
  end
  record_skips(job, schedule_id, state, window)
  update_exceptions(state, window)
  state.watermark = window.end_
  set_next_slot(job, schedule_id, state, window.next_at)
  if first then
    hint('runs', first)
  end
  return made
end

-- ── what survives an edit or a pause ───────────────────────────────────────────────────────────────────────

-- The edge of a schedule that survives an edit or a pause: the later of now and the newest slot that was armed. Slots
-- up to it are not withdrawn.
local function edge_of(job_id, schedule_id)
  local armed = call('HGET', P .. 'armed_to', job_id .. '\tschedule:' .. schedule_id)
  return math.max(now, tonumber(armed or now))
end

-- The live runs of slots after the edge.
local function runs_after(job_id, schedule_id, edge)
  local index = P .. 'slots:' .. job_id .. ':schedule:' .. schedule_id
  return load_runs(read_index('ZRANGEBYSCORE', index, '(' .. text(edge), '+inf'))
end

local function withdraw_after(job_id, schedule_id, edge)
  local count = 0
  for _, run in ipairs(runs_after(job_id, schedule_id, edge)) do
    if run.attempt == 0 then
      withdraw(run)
      count = count + 1
    end
  end
  return count
end

-- Sets the next slot of a fixed delay. It counts from the end of the live run, or else of the last run.
local function set_delayed_slot(job, schedule_id, state, delay, edge)
  local open = is_open(job.id, schedule_id)
  local next_at = state.last_end and math.max(edge, state.last_end + delay) or edge
  state.watermark = math.min(state.watermark, edge)
  set_next_slot(job, schedule_id, state, not open and next_at or nil)
end
