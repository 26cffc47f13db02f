-- Give one slot its fate ahead: `Store.except_slot`.
--
-- ARGV     job_id, schedule_id, slot, reason, expected; run: what takes its place, as in `submit`
-- returns  the id of the run that takes its place, or nothing
-- refuses  with "Same", "Waits" or "Ahead" and what it found: rules/moved_slots.py has the words
-- Uses: lines runs gates finish windows

local job = known_job(ask.job_id)
local states = schedules_of(job.id)
local state = states[ask.schedule_id]

for _, one in ipairs(state and state.exceptions or {}) do
  if one.slot == ask.slot then
    local asked = false
    if ask.run then
      asked = find('keys', key_of(ask.run.job_id, ask.run.trigger, ask.run.slot)) or '0'
    end
    local run_id = one.run_id and tostring(one.run_id) or false
    if one.reason ~= ask.reason or run_id ~= asked then
      fail('Same', one.reason, one.run_id or false)
    end
    return one.run_id
  end
end
if ask.expected and ask.expected ~= job.revision then
  fail('RevisionConflict', 'job ' .. job.id .. ': expected revision ' .. ask.expected .. ', found ' .. job.revision
    .. '; read it again')
end
if not state then
  fail('UnknownSlot', 'job ' .. job.id .. " has no schedule '" .. ask.schedule_id .. "'")
end
if ask.run then
  check_share(known_job(ask.run.job_id), ask.run)
end

local trigger, recorded = 'schedule:' .. ask.schedule_id, true
local live_id = find('keys', key_of(job.id, trigger, ask.slot))
local live = live_id and find('runs', live_id)
if live then
  if live.state == 'running' or live.attempt > 0 then
    fail('Waits', live.id, live.state, live.attempt)
  end
  skip(live, ask.reason, now)
else
  if ask.slot <= math.max(state.watermark, now) then
    fail('Ahead', state.watermark, now)
  end
  if state.delay then
    if is_open(job.id, ask.schedule_id) then
      fail('SlotSettled', "schedule '" .. ask.schedule_id
        .. "': its next slot follows the end of a run that is still open")
    end
    local one = {first = ask.slot, last = ask.slot, count = 1, reason = ask.reason}
    record_skips(job, ask.schedule_id, state, {start = state.watermark, slots = {}, skips = {one}})
    state.watermark = ask.slot
  else
    recorded = nil
  end
end
if state.delay then
  state.last_end = math.max(now, ask.run and ask.run.due or ask.slot)
  expect(job, ask.schedule_id, state, state.last_end + state.delay)
  hint('schedules', state.last_end + state.delay)
end
local run_id
if ask.run then
  run_id = insert(known_job(ask.run.job_id), ask.run, now)
  hint('runs', ask.run.due)
end
note_exception(state, {slot = ask.slot, reason = ask.reason, recorded = recorded, run_id = run_id})
keep_schedules(job.id, states)
return run_id
