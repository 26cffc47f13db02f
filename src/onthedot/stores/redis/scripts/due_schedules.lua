-- Schedules of active jobs whose next slot is near: `Store.due_schedules`.
--
-- ARGV     until_, limit, shard, layout
-- returns  schedules, earliest first, and whether there are more
-- Uses: lines runs nodes rows

check_layout(ask.layout, ask.shard)
local _, shards = layout()
local found, offset, more = {}, 0, false
repeat
  local page = look('ZRANGEBYSCORE', P .. 'coming', '-inf', ask.until_, 'LIMIT', offset, ask.limit + 1)
  for _, name in ipairs(page) do
    local job_id, bucket, schedule_id = string.match(name, '^(%d+)\t(%d+)\t(.*)$')
    if shards == 1 or shard_of(tonumber(bucket), shards) == ask.shard then
      if #found == ask.limit then
        more = true
        break
      end
      local job = job_of(tonumber(job_id))
      found[#found + 1] = schedule_row(job, schedule_id, schedules_of(job.id)[schedule_id])
    end
  end
  offset = offset + #page
until more or #page <= ask.limit
return {found, more and 1 or 0}
