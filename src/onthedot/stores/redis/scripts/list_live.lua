-- A page of live runs by due instant: `Queries.scan_live`.
-- ARGV     namespaces, owner, job, job_id, states, queue, label, node: the filter
--          after: {due, run id}; until_, an instant; rows: the most runs that are read; limit
-- returns  runs, and {due, run id} of the last run that was read, or nil if there are no more
-- Uses: lines runs rows filters

local index = index_for(DUE, P .. 'job:')
local first = place_before(index, request.after[1], member(request.after[2] + 1))
local page = read_index('ZRANGE', index, first, first + request.rows - 1, 'WITHSCORES')
return matching_runs('runs', page, 1, #page - 1, 2, function(due)
  return due >= request.until_
end, #page == 2 * request.rows)
