-- A job by its id, as it is now.
--
-- ARGV     job_id
-- returns  the job; nothing if there is none, or it was deleted
-- Uses: lines runs rows

local job = job_of(ask.job_id)
return job and job.state ~= 'deleted' and job_row(job) or nil
