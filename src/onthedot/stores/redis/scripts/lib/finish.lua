-- The way out of `running`, and into history: whoever ends a run, it goes through here.

local COUNTS = {
  success = {succeeded = true},
  failure = {dead = true, lost = true},
  either = {succeeded = true, dead = true, lost = true},
}
local TERMINAL = {succeeded = true, dead = true, cancelled = true, lost = true, skipped = true}

-- Whether a run of a parent completes the child's set. The sets are in `sets:<child>`, by parent.
local function completes(child, parent, run_id, ended)
  if child.after.any then
    return true
  end
  local key = P .. 'sets:' .. child.id
  call('HSET', key, parent, run_id .. ' ' .. text(ended))
  if call('HLEN', key) < #child.after.parents then
    return false
  end
  call('DEL', key)
  return true
end

-- Jobs run after the run that has just ended. `children:<namespace>\t<name>` are those that name its job.
local childless = {}
local function follow(job, run_id, state, ended)
  if childless[job.id] or not COUNTS.either[state] then
    return
  end
  -- Read past what is still to be written: who ends runs does not change who follows whom.
  local children = call('ZRANGE', P .. 'children:' .. job.namespace .. '\t' .. job.name, 0, -1)
  if #children == 0 then
    childless[job.id] = true
  end
  for _, child_id in ipairs(children) do
    local child = job_of(child_id)
    if COUNTS[child.after.on][state] and completes(child, job.name, run_id, ended) then
      insert(child, {trigger = 'after:' .. run_id, slot = ended, due = ended}, ended)
      hint('runs', ended)
    end
  end
end

-- The next slot of a fixed delay counts from the end of its run.
local function reopen(job, run, ended)
  if not is_slot(run.trigger) then
    return
  end
  local schedule_id = string.sub(run.trigger, #'schedule:' + 1)
  local states = schedules_of(job.id)
  local state = states[schedule_id]
  if not state or not state.delay then
    return
  end
  state.last_end = ended
  expect(job, schedule_id, state, ended + state.delay)
  keep_schedules(job.id, states)
  hint('schedules', ended + state.delay)
end

local with_history = {}
-- Move a run to history: the one way into a terminal state. Its key stays taken, its gates open.
-- last: armed, started, error and result of the attempt that ended it, if one did
local function end_run(run, state, ended, last)
  local armed = last and last.armed
  leave_all_gates(run)
  remove_live(run)
  local job = job_of(run.job)
  local over = {
    id = run.id, job = run.job, trigger = run.trigger, slot = run.slot, target = run.target, due = run.due,
    state = state, reason = run.reason, attempt = run.attempt, failures = run.failures, recoveries = run.recoveries,
    created = run.created, armed = armed, ended = ended, queue = run.queue, level = run.level, tries = run.tries,
    done = run.done, of = run.of, keys = run.keys, args = run.args,
  }
  if last then
    over.started, over.error, over.result = last.started, last.error, last.result
  end
  keep('history', run.id, over)
  local name = member(run.id)
  zadd(ENDED, ended, name)
  zadd(ended_of(run.job), ended, name)
  if state == 'dead' then
    zadd(P .. 'dead', ended, name) -- the box of dead letters
  end
  if not with_history[run.job] then
    with_history[run.job] = true
    zadd(P .. 'jobs_with_history', run.job, run.job)
  end
  count_ended(state, 1)
  hint('ends', ended)
  reopen(job, run, ended)
  follow(job, run.id, state, ended)
  return over
end

-- A run that never began is skipped; `error` names the run that was in its way.
local function skip(run, reason, at, error_)
  run.reason = reason
  return end_run(run, 'skipped', at, error_ and {error = error_})
end

-- Let the running attempt know with its node's next beat; who asked first tells why.
local function ask_to_stop(run, why, at)
  run.cancel_wanted = run.cancel_wanted or why
  keep('runs', run.id, run)
  sadd(P .. 'stopping:' .. run.inc, run.id)
  hint('beats', at)
end

-- Record the attempt and move the run to its verdict's state: the one way out of `running`.
-- verdict: state, outcome, reason, due, failed, recovered, error, result, started, ended
local function end_attempt(run, verdict, node_id)
  local tries = run.tries or {}
  tries[#tries + 1] = { -- as `AttemptRecord` has them, behind the run's id
    run.attempt, run.lease, run.fence, node_id, run.revision, verdict.outcome, verdict.error or false, run.due,
    run.reserved, run.armed, verdict.started or false, verdict.ended,
  }
  run.tries = tries
  if verdict.failed then
    run.failures = (run.failures or 0) + 1
  end
  if verdict.recovered then
    run.recoveries = (run.recoveries or 0) + 1
  end
  local job, state, reason = job_of(run.job), verdict.state, verdict.reason
  local unwanted = job.state == 'deleted' and 'deleted' or run.cancel_wanted
  if not TERMINAL[state] and unwanted then
    state, reason = 'cancelled', unwanted
  end
  if run.cancel_wanted then
    srem(P .. 'stopping:' .. run.inc, run.id)
  end
  run.reason = reason ~= '' and reason or nil
  run.cancel_wanted, run.granted_at, run.granted_by = nil, nil, nil
  if TERMINAL[state] then
    end_run(run, state, verdict.ended, {
      armed = run.armed, started = verdict.started, error = verdict.error, result = verdict.result,
    })
    return
  end
  drop_lease(run)
  open_gates(run, while_running)
  run.state = 'scheduled'
  set_due(run, verdict.due)
  run.route, run.rank = unranked(run.route), nil
  if job.state == 'paused' then
    wait_not(run)
    return
  end
  wait(run, verdict.due)
  hint('runs', verdict.due)
end

-- Remove a live run as if it had never been planned. Its gates open.
local function withdraw(run)
  leave_all_gates(run)
  remove_live(run)
  forget_key(run)
end
