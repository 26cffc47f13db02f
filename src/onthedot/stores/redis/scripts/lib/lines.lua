-- Lines, in which runs wait until a worker takes them, and the other indexes of live runs.
--
-- line:<level>:<route>   sorted set of runs by `ready`, the instant from which a worker may take them
-- ranked:<route>         sorted set of due runs by rank, in a queue that is shared fairly
--
-- `run.line` is the line in which the run waits.
local URGENCY = {[0] = 1, 4, 16, 64} -- by level, as in model/route.py
local TURN = 16777216

-- A run's name in a sorted set. Twelve digits, so that the names sort as the numbers do.
local members = {}
local function member(run_id)
  local made = members[run_id]
  if not made then
    made = string.format('%012d', run_id)
    members[run_id] = made
  end
  return made
end

local function queue_of(name)
  return get('queues', name)
end

local function is_paused(name)
  local queue = queue_of(name)
  return queue ~= nil and queue.paused_at ~= nil
end

local line_keys = {}
local function line_key(name)
  local made = line_keys[name]
  if not made then
    made = P .. name
    line_keys[name] = made
  end
  return made
end

local function leave_line(run)
  if run.line then
    zrem(line_key(run.line), member(run.id))
    run.line = nil
  end
end

local known_lines = {}
local function enter_line(run)
  local name, score
  if run.rank then
    name, score = 'ranked:' .. run.route, run.rank
  else
    name, score = 'line:' .. run.level .. ':' .. run.route, run.ready
  end
  if run.line ~= name then
    leave_line(run)
  end
  zadd(line_key(name), score, member(run.id))
  run.line = name
  if not known_lines[name] then
    known_lines[name] = true
    if run.rank then
      zadd(P .. 'ranked', 0, run.route)
    else
      zadd(P .. 'lines', 0, run.route .. '\0' .. run.level)
    end
  end
  put('runs', run.id, run)
end

-- Workers may take the run from the instant `ready` on.
local function make_available(run, ready)
  run.ready = ready
  enter_line(run)
end

local function make_unavailable(run)
  leave_line(run)
  run.ready = nil
  put('runs', run.id, run)
end

local function is_shared(route)
  return not string.find(route, '^[@=!~]')
end

local function unranked(route)
  return starts_with(route, '~') and string.sub(route, 2) or route
end

-- Gives a due run its turn, if its queue is shared fairly. As `next_turn` in model/route.py.
local function assign_rank(run)
  local queue = queue_of(run.queue)
  if not queue or not queue.weights or run.rank or not is_shared(run.route) then
    return
  end
  local field = run.level .. '\t' .. (run.share or '')
  local virtual_now = tonumber(call('HGET', P .. 'virtual_time', run.queue) or 0)
  local last_end = tonumber(call('HGET', P .. 'turns:' .. run.queue, field) or 0)
  local weight = queue.weights[run.share or ''] or 1
  local start = math.max(virtual_now, last_end)
  local length = math.max(1, math.floor(TURN / (weight * URGENCY[run.level])))
  call('HSET', P .. 'turns:' .. run.queue, field, text(start + length))
  leave_line(run)
  run.rank, run.route = start, '~' .. run.route
end

local DUE, ENDED, EXPIRING = P .. 'due', P .. 'ended', P .. 'expiring'

-- The indexes of a job's live and finished runs.
local live_keys, ended_keys = {}, {}
local function live_key(job_id)
  local made = live_keys[job_id]
  if not made then
    made = P .. 'job:' .. job_id
    live_keys[job_id] = made
  end
  return made
end

local function ended_key(job_id)
  local made = ended_keys[job_id]
  if not made then
    made = P .. 'ended:' .. job_id
    ended_keys[job_id] = made
  end
  return made
end

local function set_due(run, due)
  run.due = due
  local name = member(run.id)
  zadd(DUE, due, name)
  zadd(live_key(run.job), due, name)
end

local function set_expiry(run, expires)
  if run.expires and not expires then
    zrem(EXPIRING, member(run.id))
  elseif expires then
    zadd(EXPIRING, expires, member(run.id))
  end
  run.expires = expires
end

local held_keys = {}
local function held_key(incarnation)
  local made = held_keys[incarnation]
  if not made then
    made = P .. 'held:' .. incarnation
    held_keys[incarnation] = made
  end
  return made
end

local function clear_lease(run)
  if run.inc then
    srem(held_key(run.inc), run.id)
  end
  run.lease, run.inc, run.reserved, run.armed, run.fence, run.revision = nil, nil, nil, nil, nil, nil
  put('runs', run.id, run)
end
