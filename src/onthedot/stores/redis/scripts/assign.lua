-- Assigns runs to workers: `Store.assign`.
-- ARGV     term; placements: run_id, incarnation
-- returns  1 or 0 for each
-- Uses: lines runs nodes queues

check_term(request.term)
local answers = {}
for place, asked in ipairs(request.placements) do
  local run = get('runs', asked.run_id)
  answers[place] = 0
  if run and needs_place(run) then
    clear_lease(run)
    run.state, run.route = 'scheduled', '=' .. asked.incarnation
    make_available(run, math.max(run.due, now)) -- the worker's time to take it begins here
    hint('runs', run.due)
    answers[place] = 1
  end
end
return answers
