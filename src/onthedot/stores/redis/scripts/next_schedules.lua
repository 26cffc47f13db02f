-- Schedules of active jobs in the order of their next slots, of all shards: `Queries.next_schedules`.
-- ARGV     until_; namespaces, owner: the filter; after: {next slot, job id, schedule}, or nil
--          rows: the most schedules that are read; limit
-- returns  schedules, earliest first, and {next slot, job id, schedule} of the last schedule that was read, or nil if
--          there are no more
-- Uses: lines runs nodes rows filters

local found, first, mark = {}, 0, false
if request.after then
  local last = schedule_member(job_of(request.after[2]), request.after[3])
  first = place_before(P .. 'coming', request.after[1], last .. '\0')
end
local page = read_index('ZRANGE', P .. 'coming', first, first + request.rows - 1, 'WITHSCORES')
for place = 1, #page - 1, 2 do
  local next_at = tonumber(page[place + 1])
  if next_at > request.until_ then
    return {found, false}
  end
  local job_id, _, schedule_id = string.match(page[place], '^(%d+)\t(%d+)\t(.*)$')
  local job = job_of(tonumber(job_id))
  if #found == request.limit then
    return {found, mark}
  end
  mark = {next_at, job.id, schedule_id}
  if is_visible(job) then
    found[#found + 1] = schedule_row(job, schedule_id, schedules_of(job.id)[schedule_id])
  end
end
return {found, #page == 2 * request.rows and mark or false}
