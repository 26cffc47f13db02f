-- Live runs: made, found by what they belong to, withdrawn.

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

-- The live runs behind members of an index.
local function runs_behind(members)
  local ids, found = ids_of(members), {}
  fetch('runs', ids)
  for _, run_id in ipairs(ids) do
    local run = find('runs', run_id)
    if run then
      found[#found + 1] = run
    end
  end
  return found
end

-- Whether a run of this schedule is open.
local function is_open(job_id, schedule_id)
  local field = job_id .. '\tschedule:' .. schedule_id
  return tonumber(call('HGET', P .. 'open', field) or 0) + (opened[field] or 0) > 0
end

local function count_slot(run, change)
  if is_slot(run.trigger) then
    count_open(run.job .. '\t' .. run.trigger, change)
  end
end

-- A new run, or the one that has this key already, live or ended; and whether it is new.
-- new: trigger, slot, target, due, expires, args, share
local function insert(job, new, at)
  local target = new.target ~= '' and new.target or nil
  local key = key_of(job.id, new.trigger, new.slot, target)
  local known = find('keys', key)
  if known then
    return tonumber(known), false
  end
  local run = {
    id = take_number('run'), job = job.id, trigger = new.trigger, slot = new.slot, target = target,
    route = route_of(job, target), level = job.level, queue = job.queue, args = new.args, created = at,
    state = 'scheduled', attempt = 0, share = new.args and new.share or job.share,
  }
  if run.share == '' then
    run.share = nil
  end
  keep('keys', key, tostring(run.id))
  if is_planned(run.trigger) then
    zadd(P .. 'slots:' .. job.id .. ':' .. run.trigger, run.slot, member(run.id))
  end
  count_slot(run, 1)
  set_due(run, new.due)
  keep('runs', run.id, run)
  if job.state ~= 'paused' then -- else held until the job is resumed, and not expiring
    set_expiry(run, new.expires)
    wait(run, new.due)
  end
  return run.id, true
end

-- Take a run out of everything that is about live ones.
local function remove_live(run)
  step_out(run)
  if run.inc then
    srem(held_by(run.inc), run.id)
  end
  set_expiry(run, nil)
  local name = member(run.id)
  zrem(DUE, name)
  zrem(live_of(run.job), name)
  forget('runs', run.id)
  count_slot(run, -1)
end

local function forget_key(run)
  local key = key_of(run.job, run.trigger, run.slot, run.target)
  if find('keys', key) == tostring(run.id) then
    forget('keys', key)
  end
  if is_planned(run.trigger) then
    zrem(P .. 'slots:' .. run.job .. ':' .. run.trigger, member(run.id))
  end
end

-- ── jobs and schedules ─────────────────────────────────────────────────────────────────────────────────────

local function job_of(job_id)
  return find('jobs', job_id)
end

-- Refuses unless there is such a job.
local function known_job(job_id)
  local job = job_of(job_id)
  if not job or job.state == 'deleted' then
    fail('UnknownJob', 'job ' .. job_id .. ' does not exist, or not any more')
  end
  return job
end

-- The schedules of a job, by id.
local function schedules_of(job_id)
  local found = find('schedules', job_id)
  return found or {}
end

local function coming_name(job, schedule_id)
  return string.format('%012d\t%d\t', job.id, job.bucket) .. schedule_id
end

-- A schedule's next slot is at this instant: from there on planners find it. Call `keep_schedules` afterwards.
local function expect(job, schedule_id, state, next_at)
  state.next_at = next_at
  if next_at and job.state == 'active' then
    zadd(P .. 'coming', next_at, coming_name(job, schedule_id))
  else
    zrem(P .. 'coming', coming_name(job, schedule_id))
  end
end

local function keep_schedules(job_id, states)
  if next(states) then
    keep('schedules', job_id, states)
  else
    forget('schedules', job_id)
  end
end

-- A job's state has changed: planners find its schedules, or not.
local function expect_all(job)
  for schedule_id, state in pairs(schedules_of(job.id)) do
    expect(job, schedule_id, state, state.next_at)
  end
end

-- Whose share a run is taken from follows from an argument that the job names. The caller has read it, or is told.
local function check_share(job, run)
  local by = job.share_by or ''
  if by ~= '' and run.args and run.share_by ~= by then
    fail('Share', job.id, by)
  end
end

-- Plan nothing anew up to this slot: it was armed, or skipped ahead. The field is a job's id and a schedule's trigger.
local function hold_edge(field, slot)
  local newest = call('HGET', P .. 'armed_to', field)
  if not newest or tonumber(newest) < slot then
    call('HSET', P .. 'armed_to', field, text(slot))
  end
end
