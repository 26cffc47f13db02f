-- Settles dead runs, so that they are no dead letters any more: `Store.settle_dead`.
-- ARGV     settled: run_id, word
-- returns  1 or 0 for each
-- Uses: lines runs

local answers = {}
for place, given in ipairs(request.settled) do
  local finished = get('history', given.run_id)
  answers[place] = 0
  if finished and finished.state == 'dead' and not finished.settled then
    finished.settled = given.word
    put('history', finished.id, finished)
    zrem(P .. 'dead', member(finished.id))
    answers[place] = 1
  end
end
return answers
