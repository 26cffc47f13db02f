-- Lists schedules of active jobs whose next slot is near: `Store.due_schedules`.
-- ARGV     until_, limit, shard, layout
-- returns  schedules, earliest first, and 1 if there are more, else 0
-- Uses: lines runs nodes rows

check_layout(request.layout, request.shard)
local _, shards = layout()
local found, offset, more = {}, 0, false
repeat
  local page = read_index('ZRANGEBYSCORE', P .. 'coming', '-inf', request.until_, 'LIMIT', offset, request.limit + 1)
  for _, name in ipairs(page) do
    local job_id, bucket, schedule_id = string.match(name, '^(%d+)\t(%d+)\t(.*)$')
    if shards == 1 or shard_of(tonumber(bucket), shards) == request.shard then
      if #found == request.limit then
        more = true
        break
      end
      local job = job_of(tonumber(job_id))
      found[#found + 1] = schedule_row(job, schedule_id, schedules_of(job.id)[schedule_id])
    end
  end
  offset = offset + #page
until more or #page <= request.limit
return {found, more and 1 or 0}
