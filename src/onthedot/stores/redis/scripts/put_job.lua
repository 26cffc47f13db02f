-- Creates or edits a job: `Store.put_job`.
-- ARGV     job: the definition, and fields computed from it (stores/redis/rows.py)
--          next_id, bucket: the id that the client expects for a new job, and the bucket of that id
--          schedule_ids; grids: for each schedule id whether it is a grid; windows
--          expected: the revision that the client has read
--          rows: the most runs that this script moves
-- returns  change, job, planned, withdrawn; the sweep that does the rest, or nil
--          or "again" and the id that a new job gets
-- Uses: lines runs gates finish windows rows sweeps

local new = request.job
local name = new.namespace .. '\t' .. new.name
local old_id = call('HGET', P .. 'names', name)
local old = old_id and job_of(old_id)

local function definition_of(job)
  local stored = call('HGET', P .. 'definitions', job.id .. ':' .. job.revision)
  return string.sub(stored, string.find(stored, '\n', 1, true) + 1)
end

check_no_sweep(old, 'job:' .. (old_id or ''))
if old and definition_of(old) == new.definition then
  return {'unchanged', job_row(old), 0, 0, false}
end
local found = old and old.revision or 0
if request.expected and request.expected ~= found then
  fail('RevisionConflict', "job '" .. new.name .. "': expected revision " .. request.expected .. ', found ' .. found
    .. '; read it again')
end

-- Refuses a job that would run after itself, also by way of other jobs. The error has the shortest cycle.
local function check_cycle()
  local child_of, ahead, place = {}, {}, 1
  for _, parent in ipairs(new.after and new.after.parents or {}) do
    child_of[parent] = new.name
    ahead[#ahead + 1] = parent
  end
  while ahead[place] do
    local seen = ahead[place]
    if seen == new.name then
      local cycle = {new.name}
      repeat
        cycle[#cycle + 1] = child_of[cycle[#cycle]]
      until cycle[#cycle] == new.name
      fail('DependencyCycle', cycle)
    end
    local parent_id = call('HGET', P .. 'names', new.namespace .. '\t' .. seen)
    local after = parent_id and job_of(parent_id).after
    for _, parent in ipairs(after and after.parents or {}) do
      if not child_of[parent] then
        child_of[parent] = seen
        ahead[#ahead + 1] = parent
      end
    end
    place = place + 1
  end
end
check_cycle()

local kept_ids, windows = {}, {}
for _, schedule_id in ipairs(request.schedule_ids) do
  kept_ids[schedule_id] = true
end
for _, window in ipairs(request.windows) do
  check_past(window)
  windows[window.schedule_id] = window
end

-- Refuses to drop a schedule with past slots that have no fate: its closing window is missing or came too late.
--
-- A window that does not start at the watermark was computed before a planner planned more, or before a pause took
-- slots back. It is accepted only if the watermark lies ahead: then all slots up to now have their fates.
local function check_dropped(schedule_id, state, closing)
  local left = state.next_at
  if closing and closing.start == state.watermark then
    left = closing.next_at
  elseif closing then
    left = state.watermark
  end
  if left and left <= now then
    fail_stale("schedule '" .. schedule_id .. "': its slot at " .. text(left)
      .. ' has no fate yet; read the schedule and compute its window again', state.watermark)
  end
end

-- A schedule that an edit adds begins after now, because the old definition applies up to now. The window of a grid is
-- cut at now. Other windows are refused if their first slot has passed, and have to be computed again. The first slot
-- of a fixed delay that starts at once may be past.
local function begin_after_now(window, is_grid)
  local name = "schedule '" .. window.schedule_id .. "': "
  if is_grid then
    if window.start > now then
      fail_stale(name .. 'the window starts at ' .. text(window.start) .. ', after ' .. text(now)
        .. "; read the store's clock and compute it again", now)
    end
    cut_window(window, now)
    window.start = now
    return
  end
  local first = window.slots[1] and window.slots[1].slot or window.next_at
  local at_once = window.delay and first == window.start + 1
  if first and first <= now and not at_once then
    fail_stale(name .. 'its slot at ' .. text(first)
      .. " has passed before the edit; read the store's clock and compute it" .. ' again', window.start)
  end
end

local function check_windows(states)
  for schedule_id, state in pairs(states) do
    if not kept_ids[schedule_id] and request.expected and not state.delay then
      check_dropped(schedule_id, state, windows[schedule_id])
    end
  end
  for _, window in ipairs(request.windows) do
    local state = states[window.schedule_id]
    check_exceptions(state, window)
    local edge = edge_of(old.id, window.schedule_id)
    if state and kept_ids[window.schedule_id] and window.start > edge then
      fail_stale("schedule '" .. window.schedule_id .. "': the window starts at " .. text(window.start) .. ', after '
        .. text(edge) .. "; read the store's clock and compute it again", edge)
    end
    if not state and kept_ids[window.schedule_id] then
      begin_after_now(window, request.grids[window.schedule_id])
    end
  end
end

local job
if old then
  check_windows(schedules_of(old.id))
  job = new
  job.id, job.revision, job.state, job.created, job.updated = old.id, old.revision + 1, old.state, old.created, now
  job.pause_reason, job.paused_until, job.bucket = old.pause_reason, old.paused_until, old.bucket
  job.dropped_ahead = old.dropped_ahead
else
  local next_id = tonumber(call('HGET', P .. 'sequences', 'job') or 0) + 1
  if next_id ~= request.next_id then
    return {'again', next_id}
  end
  job = new
  job.id, job.revision, job.state, job.created, job.updated = next_number('job'), 1, 'active', now, now
  job.bucket = request.bucket
end

-- ── everything is checked: write ───────────────────────────────────────────────────────────────────────────

call('HSET', P .. 'definitions', job.id .. ':' .. job.revision, text(now) .. '\n' .. job.definition)
job.definition = nil
call('HSET', P .. 'names', name, job.id)
zadd(P .. 'names_in_order', 0, name)
zadd(P .. 'named:' .. name, job.id, job.id)
put('jobs', job.id, job)

-- Stores the parents. The runs of parents that stay still count, unless `any` or `on` has changed.
local function put_after()
  local before, after, sets = old and old.after, job.after, P .. 'sets:' .. job.id
  local stays = {}
  if after and before and before.any == after.any and before.on == after.on then
    for _, parent in ipairs(after.parents) do
      stays[parent] = true
    end
  end
  for _, parent in ipairs(call('HKEYS', sets)) do
    if not stays[parent] then
      call('HDEL', sets, parent)
    end
  end
  for _, parent in ipairs(before and before.parents or {}) do
    zrem(P .. 'children:' .. job.namespace .. '\t' .. parent, job.id)
  end
  for _, parent in ipairs(after and after.parents or {}) do
    zadd(P .. 'children:' .. job.namespace .. '\t' .. parent, job.id, job.id)
  end
end
put_after()

local sweep
if old then
  local runs, last = page_of_job(job.id, nil, request.rows)
  reroute(job, runs)
  sweep = last and start_sweep(job, 'job:' .. job.id, {kind = 'edit', mark = last, counted = {0, 0}})
end

-- Indexes the schedules that depend on a time zone, sorted by job id and schedule id.
local function index_zoned(before, after)
  for _, schedule_id in ipairs(before) do
    zrem(P .. 'zoned', member(job.id) .. '\t' .. schedule_id)
  end
  for _, schedule_id in ipairs(after) do
    zadd(P .. 'zoned', 0, member(job.id) .. '\t' .. schedule_id)
  end
end

local states, planned, withdrawn = schedules_of(job.id), 0, 0

local armed = {} -- future instants at which runs of dropped schedules start, because they were armed

local function drop(schedule_id, state)
  for _, run in ipairs(runs_after(job.id, schedule_id, now)) do
    armed[text(run.slot)] = true
  end
  local closing = windows[schedule_id]
  if closing and closing.start == state.watermark then
    record_skips(job, schedule_id, state, settle(closing, state.exceptions))
  end
  local ahead = {} -- kept, because a later edit may add the schedule again
  for _, one in ipairs(state.exceptions or {}) do
    if one.recorded and one.slot > now then
      ahead[#ahead + 1] = one
    end
  end
  job.dropped_ahead = job.dropped_ahead or {}
  job.dropped_ahead[schedule_id] = #ahead > 0 and ahead or nil
  set_next_slot(job, schedule_id, state, nil)
  states[schedule_id] = nil
end

-- Skips slots of an added schedule at these instants with the reason "edited", except those of a fixed delay.
local function skip_armed(window)
  local slots = {}
  for _, slot in ipairs(window.slots) do
    if armed[text(slot.slot)] and not window.delay then
      window.skips[#window.skips + 1] = {first = slot.slot, last = slot.slot, count = 1, reason = 'edited'}
    else
      slots[#slots + 1] = slot
    end
  end
  table.sort(window.skips, function(one, other) return one.first < other.first end)
  window.slots = slots
end

-- Adds a schedule. If the job is paused, nothing is planned: `resume_job` decides about the slots.
local function add(schedule_id, window)
  skip_armed(window)
  local first = window.slots[1] and window.slots[1].slot or window.next_at
  local state = {origin = window.start, watermark = window.start, delay = window.delay}
  if job.dropped_ahead then
    state.exceptions = job.dropped_ahead[schedule_id]
    job.dropped_ahead[schedule_id] = nil
  end
  states[schedule_id] = state
  set_next_slot(job, schedule_id, state, first)
  return job.state == 'paused' and 0 or apply_window(job, state, window)
end

-- Continues a schedule that the edit keeps.
local function continue(schedule_id, state, window)
  local edge = edge_of(job.id, schedule_id)
  state.delay = window.delay
  if window.delay then
    set_delayed_slot(job, schedule_id, state, window.delay, edge)
    return 0
  end
  if job.state == 'paused' then
    state.watermark = math.min(state.watermark, edge)
    return 0
  end
  if state.watermark < edge and state.next_at and state.next_at <= edge then
    return 0 -- the planner is late, and catches up from the watermark under the new rule
  end
  cut_window(window, edge)
  return apply_window(job, state, window)
end

local stored = {}
for schedule_id in pairs(states) do
  stored[#stored + 1] = schedule_id
end
table.sort(stored)
for _, schedule_id in ipairs(stored) do
  local edge = kept_ids[schedule_id] and edge_of(job.id, schedule_id) or now
  withdrawn = withdrawn + withdraw_after(job.id, schedule_id, edge)
end
for _, schedule_id in ipairs(stored) do
  if not kept_ids[schedule_id] then
    drop(schedule_id, states[schedule_id])
  end
end
table.sort(request.schedule_ids)
for _, schedule_id in ipairs(request.schedule_ids) do
  local window = windows[schedule_id]
  if window and states[schedule_id] then
    planned = planned + continue(schedule_id, states[schedule_id], window)
  elseif window then
    planned = planned + add(schedule_id, window)
  end
end
put_schedules(job.id, states)
index_zoned(old and old.zoned or {}, job.zoned)
hint('schedules', now)
hint('runs', now)
return {old and 'changed' or 'created', job_row(job), planned, withdrawn, sweep or false}
