-- Schedules of a shard that hang on a time zone and have a next slot: `Store.zoned_schedules`.
--
-- ARGV     term, after: a job id and a schedule id, limit
-- returns  schedules, in the order of job id and schedule id
-- Uses: lines runs nodes rows

check_layout(ask.term.layout, ask.term.shard)
local _, shards = layout()
local found = {}
local after = member(ask.after[1]) .. '\t' .. ask.after[2]
for _, name in ipairs(look('ZRANGEBYLEX', P .. 'zoned', '(' .. after, '+')) do
  if #found == ask.limit then
    break
  end
  local job_id, schedule_id = string.match(name, '^(%d+)\t(.*)$')
  local job = job_of(tonumber(job_id))
  local state = schedules_of(job.id)[schedule_id]
  if state and state.next_at and shard_of(job.bucket, shards) == ask.term.shard then
    found[#found + 1] = schedule_row(job, schedule_id, state)
  end
end
return found
