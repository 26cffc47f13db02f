-- A page of jobs by namespace and name: a part of `FindingSlice.find_jobs`.
--
-- ARGV     namespaces, owner, states, queue, label, name_contains: what is wanted of a job; after: namespace and name,
--          with a tab between; rows: how many are looked at; limit
-- returns  jobs, and namespace and name of the last that was looked at, or nothing: that was all
-- Uses: lines runs rows filters

local page = look('ZRANGEBYLEX', P .. 'names_in_order', '(' .. ask.after, '+', 'LIMIT', 0, ask.rows)
local found = {}
for _, name in ipairs(page) do
  local job = job_of(call('HGET', P .. 'names', name))
  if is_seen(job) and has_label(job) and (not ask.queue or ask.queue == job.queue)
    and (not ask.name_contains or string.find(job.name, ask.name_contains, 1, true)) then
    local made = shown_job(job)
    if not states_asked or states_asked[made[3]] then
      found[#found + 1] = made
      if #found == ask.limit then
        return {found, name}
      end
    end
  end
end
return {found, #page == ask.rows and page[#page] or false}
