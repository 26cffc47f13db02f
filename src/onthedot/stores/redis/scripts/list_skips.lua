-- A page of ranges of skipped slots, newest first: a part of `FindingSlice.find_skips`.
--
-- ARGV     namespaces, owner, job: whose; since, until_: those that reach into this range; after: a range's number;
--          rows: how many are looked at; limit
-- returns  {number, job, {schedule, first, last, count, reason, recorded}}, and the number of the last that was looked
--          at, or nothing: that was all
-- Uses: lines runs rows filters

local FIELDS = {'schedule', 'first', 'last', 'count', 'reason', 'recorded'}
local found = {}
local page = look('ZREVRANGEBYSCORE', P .. 'skipped', '(' .. text(ask.after), '-inf', 'LIMIT', 0, ask.rows)
fetch('skips', page)
for _, number in ipairs(page) do
  local entry = find('skips', number)
  local job = job_of(entry.job)
  local then_ = (not ask.since or entry.last >= ask.since) and (not ask.until_ or entry.first < ask.until_)
  if then_ and is_seen(job) and (not ask.job or ask.job == job.name) then
    found[#found + 1] = {tonumber(number), job.name, row(entry, FIELDS)}
    if #found == ask.limit then
      return {found, tonumber(number)}
    end
  end
end
return {found, #page == ask.rows and tonumber(page[#page]) or false}
