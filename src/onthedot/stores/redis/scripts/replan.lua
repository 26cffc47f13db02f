-- Moves the next slots of schedules: `Store.replan`.
-- ARGV     term; rows: job_id, schedule_id, revision, watermark, next_at; done
-- returns  1 or 0 for each row
-- Uses: lines runs nodes

check_term(request.term)
local answers = {}
for place, asked in ipairs(request.rows) do
  local job, states = job_of(asked.job_id), schedules_of(asked.job_id)
  local state = states[asked.schedule_id]
  answers[place] = 0
  if state and job.revision == asked.revision and state.watermark == asked.watermark and state.next_at then
    set_next_slot(job, asked.schedule_id, state, asked.next_at)
    put_schedules(job.id, states)
    answers[place] = 1
  end
end
if request.done then
  local term = get('terms', request.term.shard)
  term.zones = term.tzdata
  put('terms', term.shard, term)
end
return answers
