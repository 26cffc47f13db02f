-- Stop a job: `ControlSlice.pause`.
--
-- ARGV     job_id, reason, until_
-- returns  job, withdrawn, skipped, held
-- Uses: lines runs gates ends windows shown

local job = known_job(ask.job_id)
local was_paused = job.state == 'paused'
job.state, job.pause_reason, job.paused_until = 'paused', ask.reason, ask.until_
keep('jobs', job.id, job)
if ask.until_ then
  zadd(P .. 'pauses', ask.until_, job.id)
else
  zrem(P .. 'pauses', job.id)
end
expect_all(job)
if was_paused then
  return {job_row(job), 0, 0, 0}
end

stand_aside(runs_of_job(job.id))
local withdrawn, skipped, held, states = 0, 0, 0, schedules_of(job.id)
for schedule_id, state in pairs(states) do
  local edge = edge_of(job.id, schedule_id)
  withdrawn = withdrawn + withdraw_after(job.id, schedule_id, edge)
  state.watermark = math.min(state.watermark, edge)
  if state.delay then
    await_end(job, schedule_id, state, state.delay, edge)
  end
end
keep_schedules(job.id, states)

local waiting = {}
for _, run in ipairs(runs_of_job(job.id)) do
  if run.state ~= 'running' then
    waiting[#waiting + 1] = run
  end
end
for _, run in ipairs(waiting) do
  if is_slot(run.trigger) and run.attempt == 0 then
    skip(run, 'paused', now)
    skipped = skipped + 1
  end
end
for _, run in ipairs(waiting) do
  if find('runs', run.id) then
    drop_lease(run)
    run.state, run.delayed_under = 'scheduled', nil
    set_expiry(run, nil)
    wait_not(run)
    held = held + 1
  end
end
return {job_row(job), withdrawn, skipped, held}
