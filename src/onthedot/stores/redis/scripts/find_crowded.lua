-- Finds jobs with more finished runs than `keep`: `Queries.find_crowded`.
-- ARGV     keep; after: a job id; limit: the script stops after so many finished runs
-- returns  {job id, ended, run id} of the newest run to remove, for each such job
--          the last job that was read, or nil if there are no more
-- Uses:

local JOBS = 1000 -- the most jobs that one script reads
local found, counted, passed = {}, 0, false
local page = read_index('ZRANGEBYSCORE', P .. 'jobs_with_history', '(' .. request.after, '+inf', 'LIMIT', 0, JOBS)
for _, job_id in ipairs(page) do
  if counted >= request.limit then
    return {found, passed}
  end
  local kept = read_index('ZCARD', P .. 'ended:' .. job_id)
  if kept > request.keep then
    local mark = read_index('ZREVRANGE', P .. 'ended:' .. job_id, request.keep, request.keep, 'WITHSCORES')
    found[#found + 1] = {tonumber(job_id), tonumber(mark[2]), tonumber(mark[1])}
  end
  counted, passed = counted + kept, tonumber(job_id)
end
return {found, #page == JOBS and passed}
