-- Schedules of active jobs in the order of their next slots, of all shards: `PlanSlice.next_schedules`.
--
-- ARGV     until_, limit, offset: how many to pass over
-- returns  schedules, earliest first, and whether there are more
-- Uses: lines runs nodes shown

local found = {}
local page = look('ZRANGEBYSCORE', P .. 'coming', '-inf', ask.until_, 'LIMIT', ask.offset, ask.limit + 1)
for place, name in ipairs(page) do
  if place <= ask.limit then
    local job_id, _, schedule_id = string.match(name, '^(%d+)\t(%d+)\t(.*)$')
    local job = job_of(tonumber(job_id))
    found[place] = schedule_row(job, schedule_id, schedules_of(job.id)[schedule_id])
  end
end
return {found, #page > ask.limit and 1 or 0}
