-- Give runs their places: `Store.place`.
--
-- ARGV     term; placements: run_id, incarnation
-- returns  1 or 0 for each
-- Uses: lines runs nodes queues

check_term(ask.term)
local said = {}
for place, asked in ipairs(ask.placements) do
  local run = find('runs', asked.run_id)
  said[place] = 0
  if run and needs_a_place(run) then
    drop_lease(run)
    run.state, run.route = 'scheduled', '=' .. asked.incarnation
    wait(run, math.max(run.due, now)) -- from here on it has its time
    hint('runs', run.due)
    said[place] = 1
  end
end
return said
