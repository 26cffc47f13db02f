-- Jobs with more finished runs than are to be kept: `Store.find_crowded`.
--
-- ARGV     keep, after, limit
-- returns  {job id, ended, run id} of the newest beyond those, by job; the last job looked at, or nothing: all were
-- Uses:

local JOBS = 1000 -- at the most: a script must end
local found, counted, passed = {}, 0, false
local page = look('ZRANGEBYSCORE', P .. 'jobs_with_history', '(' .. ask.after, '+inf', 'LIMIT', 0, JOBS)
for _, job_id in ipairs(page) do
  if counted >= ask.limit then
    return {found, passed}
  end
  local kept = look('ZCARD', P .. 'ended:' .. job_id)
  if kept > ask.keep then
    local mark = look('ZREVRANGE', P .. 'ended:' .. job_id, ask.keep, ask.keep, 'WITHSCORES')
    found[#found + 1] = {tonumber(job_id), tonumber(mark[2]), tonumber(mark[1])}
  end
  counted, passed = counted + kept, tonumber(job_id)
end
return {found, #page == JOBS and passed}
