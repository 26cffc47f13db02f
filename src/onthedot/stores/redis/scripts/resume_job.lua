-- Lets a paused job continue: `Store.resume_job`.
-- ARGV     job_id, windows, expected, overdue, dry_run; rows: the most held runs that this script frees
-- returns  job, slots, skips, released; the sweep that does the rest, or nil. With `dry_run`, instead of the sweep the
--          mark from which `count_held` continues. Only the job if it is not resumed.
-- Uses: lines runs gates finish windows rows sweeps

local job = require_job(request.job_id)
check_no_sweep(job, 'job:' .. job.id)
local is_overdue = job.paused_until and job.paused_until <= now
if job.state ~= 'paused' or (request.overdue and not is_overdue) then
  return {job_row(job)}
end
if request.expected and request.expected ~= job.revision then
  fail('RevisionConflict', 'job ' .. job.id .. ': expected revision ' .. request.expected .. ', found ' .. job.revision
    .. '; read it again')
end
local states = schedules_of(job.id)
for _, window in ipairs(request.windows) do
  local state = states[window.schedule_id]
  if not state or state.watermark ~= window.start then
    fail_stale('the schedule has moved on; read it again', window.start)
  end
  check_past(window)
  check_exceptions(state, window)
end

local slots, skips, held, settled = {}, {}, 0, {}
for place, window in ipairs(request.windows) do
  settled[place] = settle(window, states[window.schedule_id].exceptions)
  for _, slot in ipairs(settled[place].slots) do
    local key = key_of(job.id, 'schedule:' .. window.schedule_id, slot.slot)
    if not get('keys', key) then -- otherwise the slot has its fate already
      slots[#slots + 1] = slot.slot
    end
  end
  for _, skipped in ipairs(settled[place].skips) do
    skips[#skips + 1] = {skipped.first, skipped.last, skipped.count, skipped.reason}
  end
end
local runs, last = page_of_job(job.id, nil, request.rows)
for _, run in ipairs(runs) do
  held = held + (run.state == 'scheduled' and 1 or 0)
end
job.state, job.pause_reason, job.paused_until = 'active', nil, nil
if request.dry_run then
  return {job_row(job), slots, skips, held, last or false}
end

put('jobs', job.id, job)
zrem(P .. 'pauses', job.id)
index_schedules(job)
for place, window in ipairs(settled) do
  apply_window(job, states[window.schedule_id], settled[place])
end
put_schedules(job.id, states)
free_held_runs(runs)
local sweep = last and start_sweep(job, 'job:' .. job.id, {kind = 'resume', mark = last, counted = {held, 0}})
hint('schedules', now)
hint('runs', now)
return {job_row(job), slots, skips, held, sweep or false}
