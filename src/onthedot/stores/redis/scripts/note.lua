-- Record what attempts tell: `Store.note`.
--
-- ARGV     notes: run_id, lease, number, done and of (as text, so that Python reads what it wrote), log
-- returns  1 or 0 for each
-- Uses:

local said = {}
for place, note in ipairs(ask.notes) do
  local run = find('runs', note.run_id)
  said[place] = 0
  if run and run.state == 'running' and run.lease == note.lease then
    if run.noted_attempt ~= run.attempt or run.noted < note.number then
      run.noted_attempt, run.noted = run.attempt, note.number
      if note.done then
        run.done, run.of = note.done, note.of
      end
      if note.log then
        call('HSET', P .. 'logs:' .. run.id, run.attempt, note.log)
      end
      keep('runs', run.id, run)
    end
    said[place] = 1
  end
end
return said
