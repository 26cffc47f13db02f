-- Makes rows of records. stores/redis/rows.py reads them.

local function job_row(job, revision)
  return {
    job.id, revision or job.revision, job.state, job.created, job.updated, job.pause_reason or false,
    job.paused_until or false,
  }
end

-- A job's row for lists. The state "exhausted" is not stored: it means that no schedule has a next slot or a live run.
local function listed_job_row(job)
  local columns, states = job_row(job), schedules_of(job.id)
  if job.state ~= 'active' or not next(states) then
    return columns
  end
  for schedule_id, state in pairs(states) do
    if state.next_at or is_open(job.id, schedule_id) then
      return columns
    end
  end
  columns[3] = 'exhausted'
  return columns
end

local function schedule_row(job, schedule_id, state)
  local exceptions = {}
  for place, one in ipairs(state.exceptions or {}) do
    exceptions[place] = {one.slot, one.reason, one.recorded and 1 or 0, one.run_id or false}
  end
  return {
    job_row(job), schedule_id, state.origin, state.watermark, state.next_at or false, state.last_end or false,
    exceptions,
  }
end

local RUN_FIELDS = {
  'id', 'job', 'trigger', 'slot', 'due', 'state', 'reason', 'attempt', 'failures', 'recoveries', 'created', 'armed',
  'started', 'ended', 'error', 'result', 'queue', 'level', 'target', 'done', 'of', 'args', 'settled',
}

-- The node that holds a run or held it last, and the revision of its job that this node had; '' and 0 if there is none.
local function last_holder(run)
  if run.inc then
    return get('nodes', run.inc).id, run.revision
  end
  local last = run.tries and run.tries[#run.tries]
  if last then
    return last[4], last[5]
  end
  return '', 0
end

-- A run for lists, live or finished; at the end the fields of its job, its last node and revision.
local function run_row(run)
  local columns, job = row(run, RUN_FIELDS), job_of(run.job)
  local node, revision = last_holder(run)
  for _, value in ipairs({job.name, job.namespace, job.owner or '', node, revision}) do
    columns[#columns + 1] = value
  end
  return columns
end

-- A lease, with the run's newest checkpoint.
local function lease_row(run)
  local revision, value = false, false
  if run.saved then
    local checkpoint = get('checkpoints', run.id)
    revision, value = checkpoint.revision, checkpoint.value
  end
  return {
    run.lease, run.id, run.job, run.revision, run.trigger, run.slot, run.due, run.args or false,
    run.state == 'running' and run.attempt or run.attempt + 1, run.failures or 0, run.recoveries or 0, run.inc,
    run.created, run.reserved, run.armed or 0, run.fence or 0, run.target or '', run.queue, run.level, revision, value,
  }
end

-- The leases of these runs, and their jobs, each revision once.
local function leases_and_jobs(runs)
  local leases, jobs, seen = {}, {}, {}
  for place, run in ipairs(runs) do
    leases[place] = lease_row(run)
    local revisions = seen[run.job] or {}
    seen[run.job] = revisions
    if not revisions[run.revision] then
      revisions[run.revision] = true
      jobs[#jobs + 1] = job_row(job_of(run.job), run.revision)
    end
  end
  return {leases, jobs}
end
