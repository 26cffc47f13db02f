-- Stop a job: `Store.pause`.
--
-- ARGV     job_id, reason, until_; rows: how many runs at the most
-- returns  job, withdrawn, skipped, held; the sweep that is left, or nothing
-- Uses: lines runs gates finish windows rows sweeps

local job = known_job(ask.job_id)
check_settled(job, 'job:' .. job.id)
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
  return {job_row(job), 0, 0, 0, false}
end

local runs, last = page_of_job(job.id, nil, ask.rows)
stand_aside(runs)
local withdrawn, states = 0, schedules_of(job.id)
for schedule_id, state in pairs(states) do
  local edge = edge_of(job.id, schedule_id)
  withdrawn = withdrawn + withdraw_after(job.id, schedule_id, edge)
  state.watermark = math.min(state.watermark, edge)
  if state.delay then
    await_end(job, schedule_id, state, state.delay, edge)
  end
end
keep_schedules(job.id, states)
local skipped, held = hold(runs)
local left = last and begin_sweep(job, 'job:' .. job.id, {kind = 'pause', mark = last, counted = {skipped, held}})
return {job_row(job), withdrawn, skipped, held, left or false}
