-- The state of every schedule of a job: `Store.schedules_of`.
--
-- ARGV     job_id
-- returns  schedules, in whatever order
-- Uses: lines runs rows

local found = {}
for schedule_id, state in pairs(schedules_of(ask.job_id)) do
  found[#found + 1] = schedule_row(job_of(ask.job_id), schedule_id, state)
end
return found
