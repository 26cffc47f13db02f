-- Let a paused job go on: `Store.resume`.
--
-- ARGV     job_id, windows, expected, overdue, dry_run; rows: how many held runs at the most
-- returns  job, slots, skips, released; the sweep that is left, without writing where to count on, or nothing. Only
--          the job if there was nothing to do
-- Uses: lines runs gates finish windows rows sweeps

local job = known_job(ask.job_id)
check_settled(job, 'job:' .. job.id)
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

local slots, skips, held, settled = {}, {}, 0, {}
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
local runs, last = page_of_job(job.id, nil, ask.rows)
for _, run in ipairs(runs) do
  held = held + (run.state == 'scheduled' and 1 or 0)
end
job.state, job.pause_reason, job.paused_until = 'active', nil, nil
if ask.dry_run then
  return {job_row(job), slots, skips, held, last or false}
end

keep('jobs', job.id, job)
zrem(P .. 'pauses', job.id)
expect_all(job)
for place, window in ipairs(settled) do
  apply_window(job, states[window.schedule_id], settled[place])
end
keep_schedules(job.id, states)
set_free(runs)
local left = last and begin_sweep(job, 'job:' .. job.id, {kind = 'resume', mark = last, counted = {held, 0}})
hint('schedules', now)
hint('runs', now)
return {job_row(job), slots, skips, held, left or false}
