-- Live runs: their keys, how they are inserted and removed; and the jobs and schedules that they belong to.

local function key_of(job_id, trigger, slot, target)
  return job_id .. '\t' .. trigger .. '\t' .. text(slot) .. '\t' .. (target or '')
end

local function route_of(job, target)
  return target and '@' .. target or job.route
end

local function is_planned(trigger)
  return is_slot(trigger) or starts_with(trigger, 'backfill:')
end

local function ids_of(members)
  local ids = {}
  for place, one in ipairs(members) do
    ids[place] = tonumber(one)
  end
  return ids
end

-- The live runs of these members of an index.
local function load_runs(members)
  local ids, found = ids_of(members), {}
  preload('runs', ids)
  for _, run_id in ipairs(ids) do
    local run = get('runs', run_id)
    if run then
      found[#found + 1] = run
    end
  end
  return found
end

-- Whether a run of this schedule is live.
local function is_open(job_id, schedule_id)
  local field = job_id .. '\tschedule:' .. schedule_id
  return tonumber(call('HGET', P .. 'open', field) or 0) + (open_counts[field] or 0) > 0
end

local function count_slot(run, change)
  if is_slot(run.trigger) then
    count_open(run.job .. '\t' .. run.trigger, change)
  end
end

-- Inserts a run, unless a run with this key exists, live or finished. Returns its id, and whether it is new.
-- new: trigger, slot, target, due, expires, args, share
local function insert(job, new, at)
  local target = new.target ~= '' and new.target or nil
  local key = key_of(job.id, new.trigger, new.slot, target)
  local known = get('keys', key)
  if known then
    return tonumber(known), false
  end
  local run = {
    id = next_number('run'), job = job.id, trigger = new.trigger, slot = new.slot, target = target,
    route = route_of(job, target), level = job.level, queue = job.queue, args = new.args, created = at,
    state = 'scheduled', attempt = 0, share = new.args and new.share or job.share,
  }
  if run.share == '' then
    run.share = nil
  end
  put('keys', key, tostring(run.id))
  if is_planned(run.trigger) then
    zadd(P .. 'slots:' .. job.id .. ':' .. run.trigger, run.slot, member(run.id))
  end
  count_slot(run, 1)
  set_due(run, new.due)
  put('runs', run.id, run)
  if job.state ~= 'paused' then -- a paused job's run is held until the job is resumed, and does not expire
    set_expiry(run, new.expires)
    make_available(run, new.due)
  end
  return run.id, true
end

-- Removes a run from all records and indexes of live runs.
local function remove_live(run)
  leave_line(run)
  if run.inc then
    srem(held_key(run.inc), run.id)
  end
  set_expiry(run, nil)
  local name = member(run.id)
  zrem(DUE, name)
  zrem(live_key(run.job), name)
  delete('runs', run.id)
  count_slot(run, -1)
end

local function delete_key(run)
  local key = key_of(run.job, run.trigger, run.slot, run.target)
  if get('keys', key) == tostring(run.id) then
    delete('keys', key)
  end
  if is_planned(run.trigger) then
    zrem(P .. 'slots:' .. run.job .. ':' .. run.trigger, member(run.id))
  end
end

-- ── jobs and schedules ─────────────────────────────────────────────────────────────────────────────────────

local function job_of(job_id)
  return get('jobs', job_id)
end

-- The job. Refuses if there is none, or if it was deleted.
local function require_job(job_id)
  local job = job_of(job_id)
  if not job or job.state == 'deleted' then
    fail('UnknownJob', 'job ' .. job_id .. ' does not exist, or not any more')
  end
  return job
end

-- The states of a job's schedules, by schedule id.
local function schedules_of(job_id)
  local found = get('schedules', job_id)
  return found or {}
end

local function schedule_member(job, schedule_id)
  return string.format('%012d\t%d\t', job.id, job.bucket) .. schedule_id
end

-- Sets the instant of a schedule's next slot, by which planners find it. Call `put_schedules` afterwards.
local function set_next_slot(job, schedule_id, state, next_at)
  state.next_at = next_at
  if next_at and job.state == 'active' then
    zadd(P .. 'coming', next_at, schedule_member(job, schedule_id))
  else
    zrem(P .. 'coming', schedule_member(job, schedule_id))
  end
end

local function put_schedules(job_id, states)
  if next(states) then
    put('schedules', job_id, states)
  else
    delete('schedules', job_id)
  end
end

-- Shows the schedules of a job to planners if the job is active, else hides them. Call it after a change of the state.
local function index_schedules(job)
  for schedule_id, state in pairs(schedules_of(job.id)) do
    set_next_slot(job, schedule_id, state, state.next_at)
  end
end

-- A job may name the argument whose value is the share of a run. The client computes the share, so it has to know that
-- argument: refuses if it used another one.
local function check_share(job, run)
  local by = job.share_by or ''
  if by ~= '' and run.args and run.share_by ~= by then
    fail('Share', job.id, by)
  end
end

-- Records that a slot was armed or skipped before its instant: nothing up to it is planned again. The field is a job id
-- and a schedule's trigger.
local function raise_armed_to(field, slot)
  local newest = call('HGET', P .. 'armed_to', field)
  if not newest or tonumber(newest) < slot then
    call('HSET', P .. 'armed_to', field, text(slot))
  end
end
