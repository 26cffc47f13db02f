-- The current revision of a job.
-- ARGV     job_id
-- returns  the job, or nil if there is none or it was deleted
-- Uses: lines runs rows

local job = job_of(request.job_id)
return job and job.state ~= 'deleted' and job_row(job) or nil
