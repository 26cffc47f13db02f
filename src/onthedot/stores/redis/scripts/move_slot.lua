-- Decides one slot ahead: `Store.move_slot`.
-- ARGV     job_id, schedule_id, slot, reason, expected; run: takes the slot's place, with the fields of `submit`
-- returns  the id of the run that takes its place, or nil
-- refuses  with "Same", "Waits" or "Ahead", and what it found. rules/moved_slots.py has the messages.
-- Uses: lines runs gates finish windows

local job = require_job(request.job_id)
local states = schedules_of(job.id)
local state = states[request.schedule_id]

for _, one in ipairs(state and state.exceptions or {}) do
  if one.slot == request.slot then
    local asked = false
    if request.run then
      asked = get('keys', key_of(request.run.job_id, request.run.trigger, request.run.slot)) or '0'
    end
    local run_id = one.run_id and tostring(one.run_id) or false
    if one.reason ~= request.reason or run_id ~= asked then
      fail('Same', one.reason, one.run_id or false)
    end
    return one.run_id
  end
end
if request.expected and request.expected ~= job.revision then
  fail('RevisionConflict', 'job ' .. job.id .. ': expected revision ' .. request.expected .. ', found ' .. job.revision
    .. '; read it again')
end
if not state then
  fail('UnknownSlot', 'job ' .. job.id .. " has no schedule '" .. request.schedule_id .. "'")
end
if request.run then
  check_share(require_job(request.run.job_id), request.run)
end

local trigger, recorded = 'schedule:' .. request.schedule_id, true
local live_id = get('keys', key_of(job.id, trigger, request.slot))
local live = live_id and get('runs', live_id)
if live then
  if live.state == 'running' or live.attempt > 0 then
    fail('Waits', live.id, live.state, live.attempt)
  end
  skip(live, request.reason, now)
else
  if request.slot <= math.max(state.watermark, now) then
    fail('Ahead', state.watermark, now)
  end
  if state.delay then
    if is_open(job.id, request.schedule_id) then
      fail('SlotSettled', "schedule '" .. request.schedule_id
        .. "': its next slot follows the end of a run that is still open")
    end
    local one = {first = request.slot, last = request.slot, count = 1, reason = request.reason}
    record_skips(job, request.schedule_id, state, {start = state.watermark, slots = {}, skips = {one}})
    state.watermark = request.slot
  else
    recorded = nil
  end
end
if state.delay then
  state.last_end = math.max(now, request.run and request.run.due or request.slot)
  set_next_slot(job, request.schedule_id, state, state.last_end + state.delay)
  hint('schedules', state.last_end + state.delay)
end
local run_id
if request.run then
  run_id = insert(require_job(request.run.job_id), request.run, now)
  hint('runs', request.run.due)
end
put_exception(state, {slot = request.slot, reason = request.reason, recorded = recorded, run_id = run_id})
put_schedules(job.id, states)
return run_id
