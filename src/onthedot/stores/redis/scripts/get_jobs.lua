-- Jobs by name: `Queries.get_job`.
-- ARGV     names: namespace, tab and name of each job
-- returns  the jobs that exist, in this order
-- Uses: lines runs rows

local found = {}
for _, name in ipairs(request.names) do
  local job_id = call('HGET', P .. 'names', name)
  if job_id then
    found[#found + 1] = listed_job_row(job_of(job_id))
  end
end
return found
