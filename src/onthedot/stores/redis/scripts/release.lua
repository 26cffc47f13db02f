-- Give reservations back: `Store.release`.
--
-- ARGV     leases: run_id, lease
-- returns  1 or 0 for each
-- Uses: lines runs

local said = {}
for place, given in ipairs(ask.leases) do
  local run = find('runs', given.run_id)
  said[place] = 0
  if run and run.state == 'reserved' and run.lease == given.lease then
    drop_lease(run)
    run.state = 'scheduled'
    wait(run, run.due)
    hint('runs', run.due)
    said[place] = 1
  end
end
return said
