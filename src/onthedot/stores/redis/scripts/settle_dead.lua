-- Take runs out of the box of dead letters: `LettersSlice.settle_dead`.
--
-- ARGV     settled: run_id, word
-- returns  1 or 0 for each
-- Uses: lines runs

local said = {}
for place, given in ipairs(ask.settled) do
  local run = find('history', given.run_id)
  said[place] = 0
  if run and run.state == 'dead' and not run.settled then
    run.settled = given.word
    keep('history', run.id, run)
    zrem(P .. 'dead', member(run.id))
    said[place] = 1
  end
end
return said
