-- Pauses a job: `Store.pause_job`.
-- ARGV     job_id, reason, until_; rows: the most runs that this script skips or holds
-- returns  job, withdrawn, skipped, held; the sweep that does the rest, or nil
-- Uses: lines runs gates finish windows rows sweeps

local job = require_job(request.job_id)
check_no_sweep(job, 'job:' .. job.id)
local was_paused = job.state == 'paused'
job.state, job.pause_reason, job.paused_until = 'paused', request.reason, request.until_
put('jobs', job.id, job)
if request.until_ then
  zadd(P .. 'pauses', request.until_, job.id)
else
  zrem(P .. 'pauses', job.id)
end
index_schedules(job)
if was_paused then
  return {job_row(job), 0, 0, 0, false}
end

local runs, last = page_of_job(job.id, nil, request.rows)
release_unused_gates(runs)
local withdrawn, states = 0, schedules_of(job.id)
for schedule_id, state in pairs(states) do
  local edge = edge_of(job.id, schedule_id)
  withdrawn = withdrawn + withdraw_after(job.id, schedule_id, edge)
  state.watermark = math.min(state.watermark, edge)
  if state.delay then
    set_delayed_slot(job, schedule_id, state, state.delay, edge)
  end
end
put_schedules(job.id, states)
local skipped, held = skip_or_hold(runs)
local sweep = last and start_sweep(job, 'job:' .. job.id, {kind = 'pause', mark = last, counted = {skipped, held}})
return {job_row(job), withdrawn, skipped, held, sweep or false}
