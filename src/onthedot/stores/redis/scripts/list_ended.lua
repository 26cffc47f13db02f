-- A page of finished runs, newest end first: a part of `FindingSlice.find_runs`.
--
-- ARGV     namespaces, owner, job, job_id, states, queue, label, node: what is wanted of a run; after: {ended, run id};
--          since, an instant; rows: how many are looked at; limit
-- returns  runs, and {ended, run id} of the last that was looked at, or nothing: that was all
-- Uses: lines runs rows filters

local index = index_for(ENDED, P .. 'ended:')
local behind = place_of(index, ask.after[1], member(ask.after[2]))
if behind == 0 then
  return {{}, false}
end
local page = look('ZRANGE', index, math.max(0, behind - ask.rows), behind - 1, 'WITHSCORES')
return wanted_runs('history', page, #page - 1, 1, -2, function(ended)
  return ended < ask.since
end, behind > ask.rows)
