-- Records as the rows that Python reads.

local function job_row(job, revision)
  return {
    job.id, revision or job.revision, job.state, job.created, job.updated, job.pause_reason or false,
    job.paused_until or false,
  }
end

-- Exhausted is not stored but seen: no schedule will yield again, and no run of theirs is open.
local function shown_job(job)
  local made, states = job_row(job), schedules_of(job.id)
  if job.state ~= 'active' or not next(states) then
    return made
  end
  for schedule_id, state in pairs(states) do
    if state.next_at or is_open(job.id, schedule_id) then
      return made
    end
  end
  made[3] = 'exhausted'
  return made
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

-- Who holds a run and under which revision of its job, or had it last; nobody, and 0.
local function last_tried(run)
  if run.inc then
    return find('nodes', run.inc).id, run.revision
  end
  local last = run.tries and run.tries[#run.tries]
  if last then
    return last[4], last[5]
  end
  return '', 0
end

-- A run for people, live or over, with what it has of its job, and who has it, at the end.
local function run_row(run)
  local made, job = row(run, RUN_FIELDS), job_of(run.job)
  local node, revision = last_tried(run)
  for _, value in ipairs({job.name, job.namespace, job.owner or '', node, revision}) do
    made[#made + 1] = value
  end
  return made
end

-- A lease, with where an earlier attempt has come to.
local function lease_row(run)
  local revision, value = false, false
  if run.saved then
    local checkpoint = find('checkpoints', run.id)
    revision, value = checkpoint.revision, checkpoint.value
  end
  return {
    run.lease, run.id, run.job, run.revision, run.trigger, run.slot, run.due, run.args or false,
    run.state == 'running' and run.attempt or run.attempt + 1, run.failures or 0, run.recoveries or 0, run.inc,
    run.created, run.reserved, run.armed or 0, run.fence or 0, run.target or '', run.queue, run.level, revision, value,
  }
end

-- Leases, and the jobs that they are of: each revision once.
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
