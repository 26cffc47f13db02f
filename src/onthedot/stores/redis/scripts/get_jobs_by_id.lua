-- Jobs by id, also deleted ones: `Queries.get_jobs_by_id`.
-- ARGV     job_ids
-- returns  the jobs that exist, in this order
-- Uses: lines runs rows

local found = {}
for _, job_id in ipairs(request.job_ids) do
  local job = job_of(job_id)
  if job then
    found[#found + 1] = listed_job_row(job)
  end
end
return found
