-- Gives reservations back: `Store.release`.
-- ARGV     leases: run_id, lease
-- returns  1 or 0 for each
-- Uses: lines runs

local answers = {}
for place, given in ipairs(request.leases) do
  local run = get('runs', given.run_id)
  answers[place] = 0
  if run and run.state == 'reserved' and run.lease == given.lease then
    clear_lease(run)
    run.state = 'scheduled'
    make_available(run, run.due)
    hint('runs', run.due)
    answers[place] = 1
  end
end
return answers
