-- Jobs by id, also deleted ones: `FindingSlice.get_jobs_by_id`.
--
-- ARGV     job_ids
-- returns  those that were ever there, in this order
-- Uses: lines runs rows

local found = {}
for _, job_id in ipairs(ask.job_ids) do
  local job = job_of(job_id)
  if job then
    found[#found + 1] = shown_job(job)
  end
end
return found
