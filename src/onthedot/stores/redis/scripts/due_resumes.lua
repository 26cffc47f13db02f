-- Lists paused jobs whose pause has reached its end: `Queries.due_resumes`.
-- returns  jobs, by id
-- Uses: lines runs rows

local found = {}
for _, job_id in ipairs(read_index('ZRANGEBYSCORE', P .. 'pauses', '-inf', now)) do
  found[#found + 1] = job_row(job_of(job_id))
end
table.sort(found, function(one, other) return one[1] < other[1] end)
return found
