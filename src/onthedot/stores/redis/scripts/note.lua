-- Stores progress and logs of attempts: `Store.note`.
-- ARGV     notes: run_id, lease, number, done and of (as text, so that no digit is lost), log
-- returns  1 or 0 for each
-- Uses:

local answers = {}
for place, note in ipairs(request.notes) do
  local run = get('runs', note.run_id)
  answers[place] = 0
  if run and run.state == 'running' and run.lease == note.lease then
    if run.noted_attempt ~= run.attempt or run.noted < note.number then
      run.noted_attempt, run.noted = run.attempt, note.number
      if note.done then
        run.done, run.of = note.done, note.of
      end
      if note.log then
        call('HSET', P .. 'logs:' .. run.id, run.attempt, note.log)
      end
      put('runs', run.id, run)
    end
    answers[place] = 1
  end
end
return answers
