-- Let a paused job go on: `ControlSlice.resume`.
--
-- ARGV     job_id, windows, expected, overdue, dry_run
-- returns  job, slots, skips, released; only the job if there was nothing to do
-- Uses: lines runs gates ends windows shown

local job = known_job(ask.job_id)
local is_over = job.paused_until and job.paused_until <= now
if job.state ~= 'paused' or (ask.overdue and not is_over) then
  return {job_row(job)}
end
if ask.expected and ask.expected ~= job.revision then
  fail('RevisionConflict', 'job ' .. job.id .. ': expected revision ' .. ask.expected .. ', found ' .. job.revision
    .. '; read it again')
end
local states = schedules_of(job.id)
for _, window in ipairs(ask.windows) do
  local state = states[window.schedule_id]
  if not state or state.watermark ~= window.start then
    stale('the schedule has moved on; read it again', window.start)
  end
  check_past(window)
  check_exceptions(state, window)
end

local slots, skips, held, settled = {}, {}, {}, {}
for place, window in ipairs(ask.windows) do
  settled[place] = settle(window, states[window.schedule_id].exceptions)
  for _, slot in ipairs(settled[place].slots) do
    local key = key_of(job.id, 'schedule:' .. window.schedule_id, slot.slot)
    if not find('keys', key) then -- else: had its fate
      slots[#slots + 1] = slot.slot
    end
  end
  for _, skipped in ipairs(settled[place].skips) do
    skips[#skips + 1] = {skipped.first, skipped.last, skipped.count, skipped.reason}
  end
end
for _, run in ipairs(runs_of_job(job.id)) do
  if run.state == 'scheduled' then
    held[#held + 1] = run
  end
end
job.state, job.pause_reason, job.paused_until = 'active', nil, nil
local said = {job_row(job), slots, skips, #held}
if ask.dry_run then
  return said
end

keep('jobs', job.id, job)
zrem(P .. 'pauses', job.id)
expect_all(job)
for place, window in ipairs(settled) do
  apply_window(job, states[window.schedule_id], settled[place])
end
keep_schedules(job.id, states)
for _, run in ipairs(held) do
  wait(run, run.due)
end
hint('schedules', now)
hint('runs', now)
return said
