-- A page of finished runs, newest end first: a part of `HistorySlice.list_runs`.
--
-- ARGV     job, namespace, states; offset, the place to read on from; limit
-- returns  runs, and the place to read on from, or nothing: that was all
-- Uses: lines runs shown

local PAGE = 500
local offset, found = ask.offset, {}
local states = {}
for _, state in ipairs(ask.states) do
  states[state] = true
end
local page = look('ZREVRANGE', index_for('ended', 'ended:'), offset, offset + PAGE - 1)
fetch('history', ids_of(page))
for place, name in ipairs(page) do
  local run = find('history', tonumber(name))
  local job = job_of(run.job)
  if states[run.state] and job.namespace == ask.namespace and (not ask.job or ask.job == job.name) then
    found[#found + 1] = run_row(run)
    if #found == ask.limit then
      return {found, offset + place}
    end
  end
end
return {found, #page == PAGE and offset + PAGE or false}
