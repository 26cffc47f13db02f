-- Take runs out of the box of dead letters: `Store.settle_dead`.
--
-- ARGV     settled: run_id, word
-- returns  1 or 0 for each
-- Uses: lines runs

local said = {}
for place, given in ipairs(ask.settled) do
  local over = find('history', given.run_id)
  said[place] = 0
  if over and over.state == 'dead' and not over.settled then
    over.settled = given.word
    keep('history', over.id, over)
    zrem(P .. 'dead', member(over.id))
    said[place] = 1
  end
end
return said
