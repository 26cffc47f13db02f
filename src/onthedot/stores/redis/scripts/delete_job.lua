-- End a job: `ControlSlice.delete_job`.
--
-- ARGV     job_id
-- returns  how many waiting runs were cancelled
-- Uses: lines runs gates ends

local job = known_job(ask.job_id)
job.state, job.updated = 'deleted', now
keep('jobs', job.id, job)
expect_all(job)
forget('schedules', job.id)
zrem(P .. 'pauses', job.id)
for _, parent in ipairs(job.after and job.after.parents or {}) do
  zrem(P .. 'children:' .. job.namespace .. '\t' .. parent, job.id)
end
call('DEL', P .. 'sets:' .. job.id)
for _, schedule_id in ipairs(job.zoned) do
  zrem(P .. 'zoned', member(job.id) .. '\t' .. schedule_id)
end
local name = job.namespace .. '\t' .. job.name
call('HDEL', P .. 'names', name)
zrem(P .. 'names_in_order', name)
local waiting = {}
for _, run in ipairs(runs_of_job(job.id)) do
  if run.state ~= 'running' then
    waiting[#waiting + 1] = run
  end
end
for _, run in ipairs(waiting) do
  run.reason = 'deleted'
  end_run(run, 'cancelled', now)
end
return #waiting
