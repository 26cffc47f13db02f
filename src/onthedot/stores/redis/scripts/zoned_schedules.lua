-- Schedules of a shard that depend on a time zone and have a next slot: `Queries.zoned_schedules`.
-- ARGV     term, after: a job id and a schedule id, limit
-- returns  schedules, in the order of job id and schedule id
-- Uses: lines runs nodes rows

check_layout(request.term.layout, request.term.shard)
local _, shards = layout()
local found = {}
local after = member(request.after[1]) .. '\t' .. request.after[2]
for _, name in ipairs(read_index('ZRANGEBYLEX', P .. 'zoned', '(' .. after, '+')) do
  if #found == request.limit then
    break
  end
  local job_id, schedule_id = string.match(name, '^(%d+)\t(.*)$')
  local job = job_of(tonumber(job_id))
  local state = schedules_of(job.id)[schedule_id]
  if state and state.next_at and shard_of(job.bucket, shards) == request.term.shard then
    found[#found + 1] = schedule_row(job, schedule_id, state)
  end
end
return found
