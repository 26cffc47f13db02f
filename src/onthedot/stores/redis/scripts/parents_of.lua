-- The parents of a job, and what it has of each: `Store.parents_of`.
--
-- ARGV     job_id
-- returns  {name, "run id and end" or nothing} by name
-- Uses: lines runs

local job, found = job_of(ask.job_id), {}
if job and job.state ~= 'deleted' and job.after then
  for place, parent in ipairs(job.after.parents) do
    found[place] = {parent, call('HGET', P .. 'sets:' .. job.id, parent)}
  end
end
return found
