-- Where a run waits: in the line of its route and level by the instant from which it may be taken, or, in a queue that
-- is shared fairly, in the line of its route by its rank. `run.line` is the one that it is in.
local URGENCY = {[0] = 1, 4, 16, 64} -- by level, as in model/route.py
local TURN = 16777216

-- Sorts as the number does.
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
  return find('queues', name)
end

local function is_paused(name)
  local queue = queue_of(name)
  return queue ~= nil and queue.paused_at ~= nil
end

local line_names = {}
local function key_of_line(name)
  local made = line_names[name]
  if not made then
    made = P .. name
    line_names[name] = made
  end
  return made
end

local function step_out(run)
  if run.line then
    zrem(key_of_line(run.line), member(run.id))
    run.line = nil
  end
end

local lined = {}
local function line_up(run)
  local name, score
  if run.rank then
    name, score = 'ranked:' .. run.route, run.rank
  else
    name, score = 'line:' .. run.level .. ':' .. run.route, run.ready
  end
  if run.line ~= name then
    step_out(run)
  end
  zadd(key_of_line(name), score, member(run.id))
  run.line = name
  if not lined[name] then
    lined[name] = true
    if run.rank then
      zadd(P .. 'ranked', 0, run.route)
    else
      zadd(P .. 'lines', 0, run.route .. '\0' .. run.level)
    end
  end
  keep('runs', run.id, run)
end

-- Let the run be found from `ready` on.
local function wait(run, ready)
  run.ready = ready
  line_up(run)
end

-- Let nobody find it.
local function wait_not(run)
  step_out(run)
  run.ready = nil
  keep('runs', run.id, run)
end

local function is_shared(route)
  return not string.find(route, '^[@=!~]')
end

local function unranked(route)
  return starts_with(route, '~') and string.sub(route, 2) or route
end

-- A run is due: if its queue is shared fairly, it gets its turn.
local function give_rank(run)
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
  step_out(run)
  run.rank, run.route = start, '~' .. run.route
end

local DUE, ENDED, EXPIRING = P .. 'due', P .. 'ended', P .. 'expiring'

-- The indexes of a job's live and finished runs.
local live_names, ended_names = {}, {}
local function live_of(job_id)
  local made = live_names[job_id]
  if not made then
    made = P .. 'job:' .. job_id
    live_names[job_id] = made
  end
  return made
end

local function ended_of(job_id)
  local made = ended_names[job_id]
  if not made then
    made = P .. 'ended:' .. job_id
    ended_names[job_id] = made
  end
  return made
end

-- Its due instant is where lists of runs, of all and of its job, have it.
local function set_due(run, due)
  run.due = due
  local name = member(run.id)
  zadd(DUE, due, name)
  zadd(live_of(run.job), due, name)
end

local function set_expiry(run, expires)
  if run.expires and not expires then
    zrem(EXPIRING, member(run.id))
  elseif expires then
    zadd(EXPIRING, expires, member(run.id))
  end
  run.expires = expires
end

local held_names = {}
local function held_by(incarnation)
  local made = held_names[incarnation]
  if not made then
    made = P .. 'held:' .. incarnation
    held_names[incarnation] = made
  end
  return made
end

-- Whoever had it, has it no more.
local function drop_lease(run)
  if run.inc then
    srem(held_by(run.inc), run.id)
  end
  run.lease, run.inc, run.reserved, run.armed, run.fence, run.revision = nil, nil, nil, nil, nil, nil
  keep('runs', run.id, run)
end
