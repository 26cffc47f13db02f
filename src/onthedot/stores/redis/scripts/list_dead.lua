-- A page of dead letters, newest end first: `Queries.list_dead`.
-- ARGV     job, namespace; since, an instant; before: {ended, run id}; limit
-- returns  runs, and {ended, run id} of the last run that was read, or nil if there are no more
-- Uses: lines runs rows

local PAGE = 500
local marks, offset = {}, 0
repeat -- runs that ended at the same instant are sorted by id
  local page = read_index(
    'ZREVRANGEBYSCORE', P .. 'dead', text(request.before[1]), text(request.since), 'WITHSCORES', 'LIMIT', offset, PAGE
  )
  for place = 1, #page, 2 do
    local run_id, ended = tonumber(page[place]), tonumber(page[place + 1])
    if (ended < request.before[1] or run_id < request.before[2]) and #marks < PAGE then
      marks[#marks + 1] = {ended, run_id}
    end
  end
  offset = offset + #page / 2
until #page < 2 * PAGE or #marks >= PAGE

local ids, found = {}, {}
for place, mark in ipairs(marks) do
  ids[place] = mark[2]
end
preload('history', ids)
for _, mark in ipairs(marks) do
  local run = get('history', mark[2])
  local job = job_of(run.job)
  if job.namespace == request.namespace and (not request.job or request.job == job.name) then
    found[#found + 1] = run_row(run)
    if #found == request.limit then
      return {found, mark}
    end
  end
end
return {found, #marks == PAGE and marks[PAGE] or false}
