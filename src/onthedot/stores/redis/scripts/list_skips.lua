-- A page of ranges of skipped slots, newest first: `Queries.scan_skips`.
-- ARGV     namespaces, owner, job: the filter; since, until_: ranges that overlap this time; after: a range's number
--          rows: the most ranges that are read; limit
-- returns  {number, job, {schedule, first, last, count, reason, recorded}}, and the number of the last range that was
--          read, or nil if there are no more
-- Uses: lines runs rows filters

local FIELDS = {'schedule', 'first', 'last', 'count', 'reason', 'recorded'}
local found = {}
local page = read_index(
  'ZREVRANGEBYSCORE', P .. 'skipped', '(' .. text(request.after), '-inf', 'LIMIT', 0, request.rows
)
preload('skips', page)
for _, number in ipairs(page) do
  local entry = get('skips', number)
  local job = job_of(entry.job)
  local overlaps = (not request.since or entry.last >= request.since)
    and (not request.until_ or entry.first < request.until_)
  if overlaps and is_visible(job) and (not request.job or request.job == job.name) then
    found[#found + 1] = {tonumber(number), job.name, row(entry, FIELDS)}
    if #found == request.limit then
      return {found, tonumber(number)}
    end
  end
end
return {found, #page == request.rows and tonumber(page[#page]) or false}
