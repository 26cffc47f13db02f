-- Commit "these attempts start now": `Store.arm`.
--
-- ARGV     leases: run_id, lease, revision, gates to pass; incarnations: whose they are
-- returns  for each "armed", fence, attempt, armed at; "gone", why; "busy" or "blocked", gate, holder; "skipped", gate,
--          holder, reason; "delayed", gate, until
-- Uses: lines runs gates finish nodes idle_places rates leases gate_checks

for _, incarnation in ipairs(ask.incarnations) do
  check_lease(incarnation)
end

local function arm_one(asked)
  local run = find('runs', asked.run_id)
  if run and run.granted_at and run.delayed_under == asked.lease then
    return {'delayed', run.granted_by, run.granted_at}
  end
  if not run or run.lease ~= asked.lease then
    return {'gone', 'taken or withdrawn'}
  end
  if run.state == 'reserved' then
    local job = job_of(run.job)
    if job.revision ~= asked.revision then
      return {'gone', 'edited'}
    end
    if job.state ~= 'active' or is_paused(run.queue) then
      return {'gone', 'paused'}
    end
    local closed = asked.gates and pass_gates(run, asked.gates)
    if closed then
      return closed
    end
    for _, gate in ipairs(run.gates or {}) do
      not_idle(run, gate)
    end
    arm(run)
  end
  return {'armed', run.fence, run.attempt, run.armed}
end

local said = {}
for place, asked in ipairs(ask.leases) do
  said[place] = arm_one(asked)
end
return said
