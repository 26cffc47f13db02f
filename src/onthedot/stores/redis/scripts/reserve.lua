-- Take work for a worker: `Store.reserve`.
--
-- ARGV     incarnation, lease_ids, seats, ahead, extra, quick, horizon, lapse, queues, labels, tasks, number; turns: how
--          many runs that are due get theirs at the most; turns_first: if so many did, give nothing out yet; looks: how
--          many runs that it does not take it looks at; go_on: how far the script before has come, as that has said
-- returns  armed: leases and jobs; held: leases and jobs; when to look again, or nothing; and how far it has come, if it
--          would look at more runs; or only "again"
-- Uses: lines runs nodes leases rows

local BONUS = {[0] = 0, 600000000, 1800000000, 7200000000} -- by level, as in model/route.py

check_lease(ask.incarnation)
local node = find('nodes', ask.incarnation)
local armed, held = {}, {}
local passed, used, seats, extra, ahead, again, went_to = 0, 0, ask.seats, ask.extra, ask.ahead, {}, {}
if ask.go_on then
  passed, used, seats, extra, ahead, again, went_to = unpack(ask.go_on)
end
local look_again = again[1]
if ask.number < (node.void_below or 0) or node.draining then
  return {leases_and_jobs(armed), leases_and_jobs(held), false, false}
end

local function set_of(names)
  local made = {}
  for _, name in ipairs(names) do
    made[name] = true
  end
  return made
end
local labels, tasks, quick, queues = set_of(ask.labels), set_of(ask.tasks), set_of(ask.quick), set_of(ask.queues)

-- ── where to look ──────────────────────────────────────────────────────────────────────────────────────────

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

-- The lines that this worker may look into.
local function lines_of()
  local starts, seen, lines = {}, {}, {}
  for _, queue in ipairs(ask.queues) do
    starts[#starts + 1] = queue
  end
  starts[#starts + 1] = '@' .. node.id
  starts[#starts + 1] = '=' .. ask.incarnation
  for _, start in ipairs(starts) do
    for _, name in ipairs(look('ZRANGEBYLEX', P .. 'lines', '[' .. start, '(' .. start .. '\n')) do
      local route, level = string.match(name, '^(.*)%z(%d)$')
      if not seen[name] then
        seen[name] = true
        local key = 'line:' .. level .. ':' .. route
        if look('EXISTS', P .. key) == 0 then
          zrem(P .. 'lines', name)
        elseif serves(route) then
          lines[#lines + 1] = {key = key, route = route, level = tonumber(level)}
        end
      end
    end
  end
  return lines
end

-- Runs that are due in queues that are shared fairly get their turns, earliest due first; whether there may be more.
local function give_ranks(lines)
  local left = ask.turns
  for _, line in ipairs(lines) do
    local queue = queue_of((string.match(line.route, '^([^\t]*)')))
    if queue and queue.weights and is_shared(line.route) then
      local due = look('ZRANGEBYSCORE', P .. line.key, '-inf', now, 'LIMIT', 0, left)
      for _, run in ipairs(runs_behind(due)) do
        give_rank(run)
        line_up(run)
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
  for _, route in ipairs(look('ZRANGE', P .. 'ranked', 0, -1)) do
    local served, queue = serves(route)
    if look('EXISTS', P .. 'ranked:' .. route) == 0 then
      zrem(P .. 'ranked', route)
    elseif served and queues[queue] then
      lines[#lines + 1] = {key = 'ranked:' .. route, ranked = true}
    end
  end
  return lines
end

-- ── one run after the other ────────────────────────────────────────────────────────────────────────────────

local PAGE = math.max(16, math.min(#ask.lease_ids + 1, 501)) -- one more: what is left tells when to look again
local AT_ONCE = 32 -- of a page, so many runs are read together: of several lines each may give only a few

-- Read on, behind the last run that was passed over: those that were taken are gone from here. If that one is gone,
-- too, from its instant on. A page is two lists and a third one of the runs, as far as they have been read.
local function next_page(line)
  local key, behind, found = P .. line.key, line.behind, nil
  local rank = behind and look('ZRANK', key, member(behind.id))
  if rank and tonumber(look('ZSCORE', key, member(behind.id))) == behind.score then
    found = look('ZRANGE', key, rank + 1, rank + PAGE, 'WITHSCORES')
  else
    found = look('ZRANGEBYSCORE', key, behind and text(behind.score) or '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, PAGE)
  end
  local ids, scores = {}, {}
  for place = 1, #found, 2 do
    ids[#ids + 1], scores[#scores + 1] = tonumber(found[place]), tonumber(found[place + 1])
  end
  line.ids, line.scores, line.runs, line.place = ids, scores, {}, 1
end

-- The run at the line's place is done with: if it stays there, reading goes on behind it.
local function pass_by(line)
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
  fetch('runs', ids)
  for place = 1, #ids do
    line.runs[line.place + place - 1] = find('runs', ids[place])
  end
end

-- The earlier of what was found and when this run may be had.
local function look_later(run, lead)
  local free_at
  if run.state == 'scheduled' then
    free_at = math.max(now, run.ready - lead)
  elseif run.inc == ask.incarnation and run.ready > now then
    return -- its own reservation
  else
    free_at = math.max(now, run.ready)
  end
  look_again = look_again and math.min(look_again, free_at) or free_at
end

-- The first run of a line that was not looked at yet. In a fair line, the first that is ready.
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
      look_later(run, 0)
    end
    pass_by(line)
  end
end

-- The head of a line, and its place among those of the others; both are kept until the head is taken.
local function look_at_head(line)
  local run = head_of(line)
  line.head = run
  if run then
    line.is_due = line.ranked or run.ready <= now
    line.order = line.is_due and run.ready - BONUS[run.level] or run.ready
  end
  line.is_known = true
end

-- What is due comes first, by age and priority; then the others, by instant.
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
      look_at_head(line)
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
    return false -- missed: `expire` will say so
  end
  local job = job_of(run.job)
  if job.state ~= 'active' then
    return false -- a sweep is on its way to it
  end
  if job.sweep == 'edit' and (unranked(run.route) ~= route_of(job, run.target) or run.level ~= job.level) then
    return false -- the same: it does not belong here any more
  end
  return not is_paused(run.queue) and tasks[job.task] or false
end

-- No seat is left: whether so much is due that there is no use in looking for what comes later.
local counted
local function is_full(lines)
  if ahead == 0 then
    return true
  end
  if not counted then
    counted = 0
    for _, line in ipairs(lines) do
      local key = P .. line.key
      counted = counted + (line.ranked and look('ZCARD', key) or look('ZCOUNT', key, '-inf', now))
    end
  end
  return counted >= #ask.lease_ids
end

local function take(run, at_once)
  used = used + 1
  lease(run, ask.lease_ids[used], ask.incarnation)
  if at_once then
    arm(run)
    armed[#armed + 1] = run
  else
    run.state = 'reserved'
    wait(run, math.max(run.due, now) + ask.lapse)
    held[#held + 1] = run
  end
end

local lines = lines_of()
if give_ranks(lines) and ask.turns_first then
  return 'again'
end
for _, line in ipairs(fair_lines()) do
  lines[#lines + 1] = line
end
for _, line in ipairs(lines) do
  line.seen = {}
end

local behind = {}
for place = 1, #went_to, 3 do
  behind[went_to[place]] = {score = went_to[place + 1], id = went_to[place + 2]}
end
for _, line in ipairs(lines) do
  line.behind = behind[line.key]
end

-- How far this script has come: of each line, behind which run to go on.
local function how_far()
  local places = {}
  for _, line in ipairs(lines) do
    if line.ids and line.place <= #line.ids and line.seen[line.ids[line.place]] then
      pass_by(line)
    end
    if line.behind then
      places[#places + 1] = line.key
      places[#places + 1] = line.behind.score
      places[#places + 1] = line.behind.id
    end
  end
  return {passed, used, seats, extra, ahead, {look_again}, places}
end

local looked, far = 0, false
while true do
  if looked >= ask.looks then
    far = how_far()
    break
  end
  local run = next_run(lines)
  if not run then
    break
  end
  local due, near = run.ready <= now, run.ready <= now + ask.horizon
  local gated = job_of(run.job).gated
  if near and not may_take(run) then
    passed, looked = passed + 1, looked + 1
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
    passed, looked = passed + 1, looked + 1
    local lead = ahead > 0 and ask.horizon or 0
    look_later(run, lead)
    if due and (passed >= #ask.lease_ids or (seats == 0 and extra == 0 and is_full(lines))) then
      break
    end
    if not due and look_again and run.ready - lead >= look_again then
      break -- nothing behind it can be had any earlier
    end
  end
end
return {leases_and_jobs(armed), leases_and_jobs(held), look_again or false, far}
