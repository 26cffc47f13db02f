-- A page of ranges of skipped slots, newest first: a part of `HistorySlice.list_skips`.
--
-- ARGV     job, namespace; since, until_: those that reach into this range; offset, the place to read on from; limit
-- returns  {job, schedule, first, last, count, reason, recorded}, and the place to read on from, or nothing
-- Uses: lines runs

local PAGE = 500
local FIELDS = {'schedule', 'first', 'last', 'count', 'reason', 'recorded'}
local offset, found = ask.offset, {}
local page = look('ZREVRANGE', P .. 'skipped', offset, offset + PAGE - 1)
fetch('skips', page)
for place, number in ipairs(page) do
  local entry = find('skips', number)
  local job = job_of(entry.job)
  local here = job.namespace == ask.namespace and (not ask.job or ask.job == job.name)
  local then_ = (not ask.since or entry.last >= ask.since) and (not ask.until_ or entry.first < ask.until_)
  if here and then_ then
    found[#found + 1] = {job.name, row(entry, FIELDS)}
    if #found == ask.limit then
      return {found, offset + place}
    end
  end
end
return {found, #page == PAGE and offset + PAGE or false}
