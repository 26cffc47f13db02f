-- Counts the jobs of an owner and their live runs, page by page: `Queries.count_owned`.
-- ARGV     owner; namespace (nil: all); after: namespace, tab and name of a job; rows: the most jobs of a page
-- returns  jobs, runs, and namespace, tab and name of the last job of the page, or nil if it was the last page
-- Uses: lines runs

local page = read_index('ZRANGEBYLEX', P .. 'names_in_order', '(' .. request.after, '+', 'LIMIT', 0, request.rows)
local jobs, runs = 0, 0
local ids = #page > 0 and call('HMGET', P .. 'names', unpack(page)) or {}
for _, id in ipairs(ids) do
  local job = id and job_of(id)
  if job and (job.owner or '') == request.owner and job.state ~= 'deleted'
    and (not request.namespace or request.namespace == job.namespace) then
    jobs = jobs + 1
    runs = runs + read_index('ZCARD', live_key(job.id))
  end
end
return {jobs, runs, #page == request.rows and page[#page] or false}
