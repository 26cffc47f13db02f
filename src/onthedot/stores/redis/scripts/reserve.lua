-- Reserves runs for a worker: `Store.reserve`.
-- ARGV     incarnation, lease_call, lease_count, seats, ahead, extra, quick, horizon, lapse, queues, labels, tasks, number
--          turns: the most due runs that get a turn in a queue that is shared fairly
--          turns_first: if so many runs got a turn, reserve nothing yet
--          looks: the most runs that the script reads and does not take
--          go_on: the position that the last script returned
-- returns  leases and jobs of armed runs; leases and jobs of reserved runs; when to ask again, or nil; the position
--          from which the next script continues, or nil
--          or only "again", if the turns of a shared queue come first
-- Uses: lines runs nodes leases rows

local BONUS = {[0] = 0, 600000000, 1800000000, 7200000000} -- by level, as in model/route.py

check_lease(request.incarnation)
local node = get('nodes', request.incarnation)
local armed, held = {}, {}
local passed, used, seats, extra, ahead = 0, 0, request.seats, request.extra, request.ahead
local last_ask_again, positions = {}, {}
if request.go_on then
  passed, used, seats, extra, ahead, last_ask_again, positions = unpack(request.go_on)
end
local ask_again_at = last_ask_again[1]
if request.number < (node.void_below or 0) or node.draining then
  return {leases_and_jobs(armed), leases_and_jobs(held), false, false}
end

local function set_of(names)
  local made = {}
  for _, name in ipairs(names) do
    made[name] = true
  end
  return made
end
local labels, tasks = set_of(request.labels), set_of(request.tasks)
local quick, queues = set_of(request.quick), set_of(request.queues)

-- ── lines ──────────────────────────────────────────────────────────────────────────────────────────────────

local function serves(route)
  route = unranked(route)
  if starts_with(route, '!leader\t') then
    route = string.sub(route, #'!leader\t' + 1)
  end
  local queue, needed = string.match(route, '^([^\t]*)\t?(.*)$')
  for label in string.gmatch(needed, '[^,]+') do
    if not labels[label] then
      return false
    end
  end
  return not is_paused(queue), queue
end

-- The lines from which this worker may take runs.
local function plain_lines()
  local starts, seen, lines = {}, {}, {}
  for _, queue in ipairs(request.queues) do
    starts[#starts + 1] = queue
  end
  starts[#starts + 1] = '@' .. node.id
  starts[#starts + 1] = '=' .. request.incarnation
  for _, start in ipairs(starts) do
    for _, name in ipairs(read_index('ZRANGEBYLEX', P .. 'lines', '[' .. start, '(' .. start .. '\n')) do
      local route, level = string.match(name, '^(.*)%z(%d)$')
      if not seen[name] then
        seen[name] = true
        local key = 'line:' .. level .. ':' .. route
        if read_index('EXISTS', P .. key) == 0 then
          zrem(P .. 'lines', name)
        elseif serves(route) then
          lines[#lines + 1] = {key = key, route = route, level = tonumber(level)}
        end
      end
    end
  end
  return lines
end

-- Gives due runs their ranks in queues that are shared fairly, the earliest first. Returns whether there may be more.
local function assign_ranks(lines)
  local left = request.turns
  for _, line in ipairs(lines) do
    local queue = queue_of((string.match(line.route, '^([^\t]*)')))
    if queue and queue.weights and is_shared(line.route) then
      local due = read_index('ZRANGEBYSCORE', P .. line.key, '-inf', now, 'LIMIT', 0, left)
      for _, run in ipairs(load_runs(due)) do
        assign_rank(run)
        enter_line(run)
      end
      left = left - #due
      if left == 0 then
        return true
      end
    end
  end
  return false
end

local function fair_lines()
  local lines = {}
  for _, route in ipairs(read_index('ZRANGE', P .. 'ranked', 0, -1)) do
    local served, queue = serves(route)
    if read_index('EXISTS', P .. 'ranked:' .. route) == 0 then
      zrem(P .. 'ranked', route)
    elseif served and queues[queue] then
      lines[#lines + 1] = {key = 'ranked:' .. route, ranked = true}
    end
  end
  return lines
end

-- ── runs ───────────────────────────────────────────────────────────────────────────────────────────────────

local PAGE = math.max(16, math.min(request.lease_count + 1, 501)) -- one more than it takes, to know when to ask again
local AT_ONCE = 32 -- runs of a page that are read together; with several lines, each may give only a few

-- Reads the next page: the runs after the last one that stayed in the line, because taken runs have left it. If that
-- one has left too, it reads from its score on. A page has lists of ids and scores, and the runs that were read so far.
local function next_page(line)
  local key, behind, found = P .. line.key, line.behind, nil
  local rank = behind and read_index('ZRANK', key, member(behind.id))
  if rank and tonumber(read_index('ZSCORE', key, member(behind.id))) == behind.score then
    found = read_index('ZRANGE', key, rank + 1, rank + PAGE, 'WITHSCORES')
  else
    found = read_index(
      'ZRANGEBYSCORE', key, behind and text(behind.score) or '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, PAGE
    )
  end
  local ids, scores = {}, {}
  for place = 1, #found, 2 do
    ids[#ids + 1], scores[#scores + 1] = tonumber(found[place]), tonumber(found[place + 1])
  end
  line.ids, line.scores, line.runs, line.place = ids, scores, {}, 1
end

-- Goes to the next run of the line. If this run stays in the line, the next page begins after it.
local function go_to_next(line)
  local run, score = line.runs[line.place], line.scores[line.place]
  if run.line == line.key and (run.rank or run.ready) == score then
    line.behind = {score = score, id = run.id}
  end
  line.place = line.place + 1
end

local function read_runs(line)
  local ids = {}
  for place = line.place, math.min(line.place + AT_ONCE - 1, #line.ids) do
    ids[#ids + 1] = line.ids[place]
  end
  preload('runs', ids)
  for place = 1, #ids do
    line.runs[line.place + place - 1] = get('runs', ids[place])
  end
end

-- Makes the worker ask again when this run is free, if that is earlier than the instant so far.
local function ask_again_for(run, lead)
  local free_at
  if run.state == 'scheduled' then
    free_at = math.max(now, run.ready - lead)
  elseif run.inc == request.incarnation and run.ready > now then
    return -- its own reservation
  else
    free_at = math.max(now, run.ready)
  end
  ask_again_at = ask_again_at and math.min(ask_again_at, free_at) or free_at
end

-- The first run of a line that was not offered yet; in a ranked line, the first that is ready.
local function head_of(line)
  while true do
    if not line.ids or (line.place > #line.ids and #line.ids == PAGE) then
      next_page(line)
    end
    local place = line.place
    if place > #line.ids then
      return nil
    end
    if not line.runs[place] then
      read_runs(line)
    end
    local run = line.runs[place]
    if not line.seen[run.id] and run.line == line.key then
      if not line.ranked or run.ready <= now then
        return run
      end
      ask_again_for(run, 0)
    end
    go_to_next(line)
  end
end

-- Finds the head of a line and its order among the heads of other lines. Both stay until `next_run` returns the head.
local function find_head(line)
  local run = head_of(line)
  line.head = run
  if run then
    line.is_due = line.ranked or run.ready <= now
    line.order = line.is_due and run.ready - BONUS[run.level] or run.ready
  end
  line.is_known = true
end

-- Due runs come first, by age and priority; then the others, by instant.
local function comes_before(one, other)
  if one.is_due ~= other.is_due then
    return one.is_due
  elseif one.order ~= other.order then
    return one.order < other.order
  end
  return one.head.id < other.head.id
end

local function next_run(lines)
  local best
  for _, line in ipairs(lines) do
    if not line.is_known then
      find_head(line)
    end
    if line.head and (not best or comes_before(line, best)) then
      best = line
    end
  end
  if not best then
    return nil
  end
  best.seen[best.head.id] = true
  best.is_known = false
  return best.head
end

local function may_take(run)
  if run.expires and run.expires <= now then
    return false -- `expire` ends it
  end
  local job = job_of(run.job)
  if job.state ~= 'active' then
    return false -- a sweep will end or hold it
  end
  if job.sweep == 'edit' and (unranked(run.route) ~= route_of(job, run.target) or run.level ~= job.level) then
    return false -- a sweep will move it to another line
  end
  return not is_paused(run.queue) and tasks[job.task] or false
end

-- Whether so many runs are due that the worker need not look for later ones. For a worker without a free seat.
local counted
local function is_full(lines)
  if ahead == 0 then
    return true
  end
  if not counted then
    counted = 0
    for _, line in ipairs(lines) do
      local key = P .. line.key
      counted = counted + (line.ranked and read_index('ZCARD', key) or read_index('ZCOUNT', key, '-inf', now))
    end
  end
  return counted >= request.lease_count
end

local function take(run, at_once)
  used = used + 1
  lease(run, request.lease_call .. '-' .. (used - 1), request.incarnation)
  if at_once then
    arm(run)
    armed[#armed + 1] = run
  else
    run.state = 'reserved'
    make_available(run, math.max(run.due, now) + request.lapse)
    held[#held + 1] = run
  end
end

local lines = plain_lines()
if assign_ranks(lines) and request.turns_first then
  return 'again'
end
for _, line in ipairs(fair_lines()) do
  lines[#lines + 1] = line
end
for _, line in ipairs(lines) do
  line.seen = {}
end

local marks = {}
for place = 1, #positions, 3 do
  marks[positions[place]] = {score = positions[place + 1], id = positions[place + 2]}
end
for _, line in ipairs(lines) do
  line.behind = marks[line.key]
end

-- The position for the next script: the counts so far, and for each line the run after which to continue.
local function position()
  local places = {}
  for _, line in ipairs(lines) do
    if line.ids and line.place <= #line.ids and line.seen[line.ids[line.place]] then
      go_to_next(line)
    end
    if line.behind then
      places[#places + 1] = line.key
      places[#places + 1] = line.behind.score
      places[#places + 1] = line.behind.id
    end
  end
  return {passed, used, seats, extra, ahead, {ask_again_at}, places}
end

local not_taken, next_position = 0, false
while true do
  if not_taken >= request.looks then
    next_position = position()
    break
  end
  local run = next_run(lines)
  if not run then
    break
  end
  local due, near = run.ready <= now, run.ready <= now + request.horizon
  local gated = job_of(run.job).gated
  if near and not may_take(run) then
    passed, not_taken = passed + 1, not_taken + 1
  elseif not due and near and ahead > 0 and run.state == 'scheduled' then
    ahead = ahead - 1
    take(run, false)
  elseif due and seats > 0 then
    seats = seats - 1
    take(run, not gated)
  elseif due and extra > 0 and quick[run.job] and not gated then
    extra = extra - 1
    take(run, true)
  else
    passed, not_taken = passed + 1, not_taken + 1
    local lead = ahead > 0 and request.horizon or 0
    ask_again_for(run, lead)
    if due and (passed >= request.lease_count or (seats == 0 and extra == 0 and is_full(lines))) then
      break
    end
    if not due and ask_again_at and run.ready - lead >= ask_again_at then
      break -- no later run is free earlier
    end
  end
end
return {leases_and_jobs(armed), leases_and_jobs(held), ask_again_at or false, next_position}
