-- Ends attempts and runs. Every run leaves `running`, and enters history, through this file.

local COUNTS = {
  success = {succeeded = true},
  failure = {dead = true, lost = true},
  either = {succeeded = true, dead = true, lost = true},
}
local TERMINAL = {succeeded = true, dead = true, cancelled = true, lost = true, skipped = true}

-- Whether a run of a parent completes the child's set. `sets:<child id>` has a field for each parent.
local function completes_set(child, parent, run_id, ended)
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

-- Inserts runs of the jobs that run after this one. `children:<namespace>\t<name>` has the ids of these jobs.
local jobs_without_children = {}
local function follow(job, run_id, state, ended)
  if jobs_without_children[job.id] or not COUNTS.either[state] then
    return
  end
  -- No script that gets this far changes `children`, so staged changes need not be written first.
  local children = call('ZRANGE', P .. 'children:' .. job.namespace .. '\t' .. job.name, 0, -1)
  if #children == 0 then
    jobs_without_children[job.id] = true
  end
  for _, child_id in ipairs(children) do
    local child = job_of(child_id)
    if COUNTS[child.after.on][state] and completes_set(child, job.name, run_id, ended) then
      insert(child, {trigger = 'after:' .. run_id, slot = ended, due = ended}, ended)
      hint('runs', ended)
    end
  end
end

-- Sets the next slot of a fixed delay: it counts from the end of the run.
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
  set_next_slot(job, schedule_id, state, ended + state.delay)
  put_schedules(job.id, states)
  hint('schedules', ended + state.delay)
end

local jobs_with_history = {}
-- Moves a run to history. No other function makes a run terminal. Its key stays used, and its gates open.
-- last: armed, started, error and result of the attempt that ended the run, if an attempt did
local function end_run(run, state, ended, last)
  local armed = last and last.armed
  leave_all_gates(run)
  remove_live(run)
  local job = job_of(run.job)
  local finished = {
    id = run.id, job = run.job, trigger = run.trigger, slot = run.slot, target = run.target, due = run.due,
    state = state, reason = run.reason, attempt = run.attempt, failures = run.failures, recoveries = run.recoveries,
    created = run.created, armed = armed, ended = ended, queue = run.queue, level = run.level, tries = run.tries,
    done = run.done, of = run.of, keys = run.keys, args = run.args,
  }
  if last then
    finished.started, finished.error, finished.result = last.started, last.error, last.result
  end
  put('history', run.id, finished)
  local name = member(run.id)
  zadd(ENDED, ended, name)
  zadd(ended_key(run.job), ended, name)
  if state == 'dead' then
    zadd(P .. 'dead', ended, name) -- the dead letters
  end
  if not jobs_with_history[run.job] then
    jobs_with_history[run.job] = true
    zadd(P .. 'jobs_with_history', run.job, run.job)
  end
  count_ended(state, 1)
  hint('ends', ended)
  reopen(job, run, ended)
  follow(job, run.id, state, ended)
  return finished
end

-- Skips a run that never started. `error_` names the run that blocked it.
local function skip(run, reason, at, error_)
  run.reason = reason
  return end_run(run, 'skipped', at, error_ and {error = error_})
end

-- Asks a running attempt to stop. Its node learns it with the next heartbeat. The first request sets the reason.
local function ask_to_stop(run, why, at)
  run.cancel_wanted = run.cancel_wanted or why
  put('runs', run.id, run)
  sadd(P .. 'stopping:' .. run.inc, run.id)
  hint('beats', at)
end

-- Records the attempt and moves the run to its verdict's state. No other function ends an attempt.
-- verdict: state, outcome, reason, due, failed, recovered, error, result, started, ended
local function end_attempt(run, verdict, node_id)
  local tries = run.tries or {}
  tries[#tries + 1] = { -- the fields of `AttemptRecord` in order, without the run's id
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
  local stop_reason = job.state == 'deleted' and 'deleted' or run.cancel_wanted
  if not TERMINAL[state] and stop_reason then
    state, reason = 'cancelled', stop_reason
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
  clear_lease(run)
  open_gates(run, is_limit)
  run.state = 'scheduled'
  set_due(run, verdict.due)
  run.route, run.rank = unranked(run.route), nil
  if job.state == 'paused' then
    make_unavailable(run)
    return
  end
  make_available(run, verdict.due)
  hint('runs', verdict.due)
end

-- Removes a live run as if it had never been planned. Its gates open.
local function withdraw(run)
  leave_all_gates(run)
  remove_live(run)
  delete_key(run)
end
