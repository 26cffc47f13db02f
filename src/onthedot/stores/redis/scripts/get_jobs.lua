-- Jobs as people see them: `get_job` (names) and `list_jobs` (limit).
--
-- ARGV     names: namespace and name, with a tab between; or limit
-- returns  jobs, in order; those that are not there are left out
-- Uses: lines runs shown

local names = ask.names or look('ZRANGE', P .. 'names_in_order', 0, ask.limit - 1)
local found = {}
for _, name in ipairs(names) do
  local job_id = call('HGET', P .. 'names', name)
  if job_id then
    found[#found + 1] = shown_job(job_of(job_id))
  end
end
return found
