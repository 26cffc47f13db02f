-- A page of finished runs, newest end first: `Queries.scan_ended`.
-- ARGV     namespaces, owner, job, job_id, states, queue, label, node: the filter
--          after: {ended, run id}; since, an instant; rows: the most runs that are read; limit
-- returns  runs, and {ended, run id} of the last run that was read, or nil if there are no more
-- Uses: lines runs rows filters

local index = index_for(ENDED, P .. 'ended:')
local behind = place_before(index, request.after[1], member(request.after[2]))
if behind == 0 then
  return {{}, false}
end
local page = read_index('ZRANGE', index, math.max(0, behind - request.rows), behind - 1, 'WITHSCORES')
return matching_runs('history', page, #page - 1, 1, -2, function(ended)
  return ended < request.since
end, behind > request.rows)
