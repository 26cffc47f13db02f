-- Move runs that were just given out to the dead letters: this version cannot read their jobs.
--
-- ARGV     leases: run_id, lease
-- Uses: lines runs gates finish

for _, given in ipairs(ask.leases) do
  local run = find('runs', given.run_id)
  if run and run.lease == given.lease then
    if run.state == 'running' then
      run.attempt = run.attempt - 1 -- it was armed, and has not begun
    end
    run.reason = 'unreadable'
    end_run(run, 'dead', now)
  end
end
