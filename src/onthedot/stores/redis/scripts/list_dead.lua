-- A page of the box of dead letters, newest end first: a part of `Store.list_dead`.
--
-- ARGV     job, namespace; since, an instant; before: {ended, run id}; limit
-- returns  runs, and {ended, run id} of the last that was looked at, or nothing: that was all
-- Uses: lines runs rows

local PAGE = 500
local marks, offset = {}, 0
repeat -- those that ended in the same instant go by id
  local page = look(
    'ZREVRANGEBYSCORE', P .. 'dead', text(ask.before[1]), text(ask.since), 'WITHSCORES', 'LIMIT', offset, PAGE
  )
  for place = 1, #page, 2 do
    local run_id, ended = tonumber(page[place]), tonumber(page[place + 1])
    if (ended < ask.before[1] or run_id < ask.before[2]) and #marks < PAGE then
      marks[#marks + 1] = {ended, run_id}
    end
  end
  offset = offset + #page / 2
until #page < 2 * PAGE or #marks >= PAGE

local ids, found = {}, {}
for place, mark in ipairs(marks) do
  ids[place] = mark[2]
end
fetch('history', ids)
for _, mark in ipairs(marks) do
  local run = find('history', mark[2])
  local job = job_of(run.job)
  if job.namespace == ask.namespace and (not ask.job or ask.job == job.name) then
    found[#found + 1] = run_row(run)
    if #found == ask.limit then
      return {found, mark}
    end
  end
end
return {found, #marks == PAGE and marks[PAGE] or false}
