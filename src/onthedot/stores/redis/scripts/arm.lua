-- Commits "these attempts start now": `Store.arm`.
-- ARGV     leases: run_id, lease, revision, gates (see lib/gate_checks.lua); incarnations: the holders of the leases
-- returns  one of these for each lease:
--          "armed", fence, attempt, armed at
--          "gone", reason
--          "busy" or "blocked", gate, holder
--          "skipped", gate, holder, reason
--          "delayed", gate, until
-- Uses: lines runs gates finish nodes idle_places rates leases gate_checks

for _, incarnation in ipairs(request.incarnations) do
  check_lease(incarnation)
end

local function arm_one(asked)
  local run = get('runs', asked.run_id)
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
      clear_idle(run, gate)
    end
    arm(run)
  end
  return {'armed', run.fence, run.attempt, run.armed}
end

local answers = {}
for place, asked in ipairs(request.leases) do
  answers[place] = arm_one(asked)
end
return answers
