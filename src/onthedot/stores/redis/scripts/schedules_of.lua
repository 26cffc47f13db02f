-- The states of a job's schedules: `Queries.schedules_of`.
-- ARGV     job_id
-- returns  schedules, in no order
-- Uses: lines runs rows

local found = {}
for schedule_id, state in pairs(schedules_of(request.job_id)) do
  found[#found + 1] = schedule_row(job_of(request.job_id), schedule_id, state)
end
return found
