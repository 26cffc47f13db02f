-- How many jobs an owner has, and how many of their runs have not ended, page by page: `Store.count_owned`.
--
-- ARGV     owner; namespace, or nothing: all; after: namespace and name, with a tab between; rows: how many jobs are looked at
-- returns  jobs, runs, and namespace and name of the last job that was looked at, or nothing: that was all
-- Uses: lines runs

local page = look('ZRANGEBYLEX', P .. 'names_in_order', '(' .. ask.after, '+', 'LIMIT', 0, ask.rows)
local jobs, runs = 0, 0
local ids = #page > 0 and call('HMGET', P .. 'names', unpack(page)) or {}
for _, id in ipairs(ids) do
  local job = id and job_of(id)
  if job and (job.owner or '') == ask.owner and job.state ~= 'deleted'
    and (not ask.namespace or ask.namespace == job.namespace) then
    jobs = jobs + 1
    runs = runs + look('ZCARD', live_of(job.id))
  end
end
return {jobs, runs, #page == ask.rows and page[#page] or false}
