-- Deletes a job: `Store.delete_job`.
-- ARGV     job_id, expected; rows: the most runs that this script cancels
-- returns  how many waiting runs were cancelled; the sweep that cancels the rest, or nil
-- Uses: lines runs gates finish sweeps

local job = require_job(request.job_id)
local sweeping = 'job:' .. job.id
check_no_sweep(job, sweeping)
if request.expected and request.expected ~= job.revision then
  fail('RevisionConflict', 'job ' .. job.id .. ': expected revision ' .. request.expected .. ', found ' .. job.revision
    .. '; read it again')
end
job.state, job.updated = 'deleted', now
put('jobs', job.id, job)
index_schedules(job)
delete('schedules', job.id)
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
local runs, last = page_of_job(job.id, nil, request.rows)
local cancelled = cancel_waiting(runs)
local sweep = last and start_sweep(job, sweeping, {kind = 'delete', mark = last, counted = {cancelled, 0}})
return {cancelled, sweep or false}
