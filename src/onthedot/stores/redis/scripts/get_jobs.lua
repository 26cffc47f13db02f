-- Jobs as people see them: `Store.get_job`.
--
-- ARGV     names: namespace and name, with a tab between
-- returns  jobs, in order; those that are not there are left out
-- Uses: lines runs rows

local found = {}
for _, name in ipairs(ask.names) do
  local job_id = call('HGET', P .. 'names', name)
  if job_id then
    found[#found + 1] = shown_job(job_of(job_id))
  end
end
return found
