-- A page of live runs by due instant: a part of `FindingSlice.find_runs`.
--
-- ARGV     namespaces, owner, job, job_id, states, queue, label, node: what is wanted of a run; after: {due, run id};
--          until_, an instant; rows: how many are looked at; limit
-- returns  runs, and {due, run id} of the last that was looked at, or nothing: that was all
-- Uses: lines runs rows filters

local index = index_for(DUE, P .. 'job:')
local first = place_of(index, ask.after[1], member(ask.after[2] + 1))
local page = look('ZRANGE', index, first, first + ask.rows - 1, 'WITHSCORES')
return wanted_runs('runs', page, 1, #page - 1, 2, function(due)
  return due >= ask.until_
end, #page == 2 * ask.rows)
