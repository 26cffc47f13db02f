-- End a job: `Store.delete_job`.
--
-- ARGV     job_id, expected; rows: how many runs at the most
-- returns  how many waiting runs were cancelled; the sweep that is left, or nothing
-- Uses: lines runs gates finish sweeps

local job = known_job(ask.job_id)
local sweeping = 'job:' .. job.id
check_settled(job, sweeping)
if ask.expected and ask.expected ~= job.revision then
  fail('RevisionConflict', 'job ' .. job.id .. ': expected revision ' .. ask.expected .. ', found ' .. job.revision
    .. '; read it again')
end
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
local runs, last = page_of_job(job.id, nil, ask.rows)
local cancelled = cancel_deleted(runs)
local left = last and begin_sweep(job, sweeping, {kind = 'delete', mark = last, counted = {cancelled, 0}})
return {cancelled, left or false}
