-- Schedules of active jobs in the order of their next slots, of all shards: a part of `Store.next_schedules`.
--
-- ARGV     until_; namespaces, owner: whose; after: {next slot, job id, schedule}, or nothing; rows: how many are looked
--          at; limit
-- returns  schedules, earliest first, and {next slot, job id, schedule} of the last that was looked at, or nothing: that
--          was all
-- Uses: lines runs nodes rows filters

local found, first, mark = {}, 0, false
if ask.after then
  local last = coming_name(job_of(ask.after[2]), ask.after[3])
  first = place_of(P .. 'coming', ask.after[1], last .. '\0')
end
local page = look('ZRANGE', P .. 'coming', first, first + ask.rows - 1, 'WITHSCORES')
for place = 1, #page - 1, 2 do
  local next_at = tonumber(page[place + 1])
  if next_at > ask.until_ then
    return {found, false}
  end
  local job_id, _, schedule_id = string.match(page[place], '^(%d+)\t(%d+)\t(.*)$')
  local job = job_of(tonumber(job_id))
  if #found == ask.limit then
    return {found, mark}
  end
  mark = {next_at, job.id, schedule_id}
  if is_seen(job) then
    found[#found + 1] = schedule_row(job, schedule_id, schedules_of(job.id)[schedule_id])
  end
end
return {found, #page == 2 * ask.rows and mark or false}
