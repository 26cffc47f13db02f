-- A page of jobs by namespace and name: `Queries.scan_jobs`.
-- ARGV     namespaces, owner, states, queue, label, name_contains: the filter
--          after: namespace, tab and name of a job; rows: the most jobs that are read; limit
-- returns  jobs, and namespace, tab and name of the last job that was read, or nil if there are no more
-- Uses: lines runs rows filters

local page = read_index('ZRANGEBYLEX', P .. 'names_in_order', '(' .. request.after, '+', 'LIMIT', 0, request.rows)
local found = {}
for _, name in ipairs(page) do
  local job = job_of(call('HGET', P .. 'names', name))
  if is_visible(job) and has_label(job) and (not request.queue or request.queue == job.queue)
    and (not request.name_contains or string.find(job.name, request.name_contains, 1, true)) then
    local made = listed_job_row(job)
    if not wanted_states or wanted_states[made[3]] then
      found[#found + 1] = made
      if #found == request.limit then
        return {found, name}
      end
    end
  end
end
return {found, #page == request.rows and page[#page] or false}
