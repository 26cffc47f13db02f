-- Moves reserved runs to the dead letters, because this version cannot read their jobs. A part of `Store.reserve` and
-- `recover`.
--
-- ARGV     leases: run_id, lease
-- Uses: lines runs gates finish

for _, given in ipairs(request.leases) do
  local run = get('runs', given.run_id)
  if run and run.lease == given.lease then
    if run.state == 'running' then
      run.attempt = run.attempt - 1 -- the attempt was armed, but never started
    end
    run.reason = 'unreadable'
    end_run(run, 'dead', now)
  end
end
