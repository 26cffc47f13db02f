-- The parents of a job, with the newest run of each that counts: `Queries.parents_of`.
-- ARGV     job_id
-- returns  {name, "<run id> <end>" or nil} for each parent
-- Uses: lines runs

local job, found = job_of(request.job_id), {}
if job and job.state ~= 'deleted' and job.after then
  for place, parent in ipairs(job.after.parents) do
    found[place] = {parent, call('HGET', P .. 'sets:' .. job.id, parent)}
  end
end
return found
