-- Counts of what was pruned: `Queries.list_daily_counts`.
-- ARGV     job, namespace
-- returns  {job, day, state, count}, in no order. A job that was deleted and created again comes twice.
-- Uses: lines runs

local found, kept = {}, call('HGETALL', P .. 'daily')
for place = 1, #kept, 2 do
  local day, job_id, state = string.match(kept[place], '^(-?%d+)\t(%d+)\t(%l+)$')
  local job = job_of(job_id)
  if job.namespace == request.namespace and (not request.job or request.job == job.name) then
    found[#found + 1] = {job.name, tonumber(day), state, tonumber(kept[place + 1])}
  end
end
return found
