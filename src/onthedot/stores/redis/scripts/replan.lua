-- Move the next slots of schedules: `Store.replan`.
--
-- ARGV     term; rows: job_id, schedule_id, revision, watermark, next_at; done
-- returns  1 or 0 for each row
-- Uses: lines runs nodes

check_term(ask.term)
local said = {}
for place, asked in ipairs(ask.rows) do
  local job, states = job_of(asked.job_id), schedules_of(asked.job_id)
  local state = states[asked.schedule_id]
  said[place] = 0
  if state and job.revision == asked.revision and state.watermark == asked.watermark and state.next_at then
    expect(job, asked.schedule_id, state, asked.next_at)
    keep_schedules(job.id, states)
    said[place] = 1
  end
end
if ask.done then
  local term = find('terms', ask.term.shard)
  term.zones = term.tzdata
  keep('terms', term.shard, term)
end
return said
