-- Sweeps: a decision about a job or a queue is applied to its runs in steps, so that no script takes long.
--
-- The first script writes the decision, which holds from then on, and applies it to at most `rows` runs. The rest is a
-- sweep. The process that made the decision does it step by step; if that process dies, upkeep does.
--
-- sweeps    by name, "job:<id>" or "queue:<name>": number, kind, position and counts of a sweep
-- sweeping  the names of the sweeps that are not done, by the instant of their last step
-- `job.sweep`, `queue.sweep`: the kind of a sweep that is not done. Until it is done, no new decision is accepted.

local function check_no_sweep(one, name)
  if one and one.sweep then
    fail('Unsettled', name, get('sweeps', name).number)
  end
end

-- The place of the first member of a sorted set after this score and name.
local function place_after(key, score, name)
  local at = text(score)
  local low = read_index('ZCOUNT', key, '-inf', '(' .. at)
  local high = low + read_index('ZCOUNT', key, at, at)
  while low < high do -- members with the same score are sorted by name
    local middle = math.floor((low + high) / 2)
    if read_index('ZRANGE', key, middle, middle)[1] <= name then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- A page of a job's live runs after the mark {due, member}, sorted by id. Also the mark of the last one, or nil if
-- there are no more.
local function page_of_job(job_id, mark, rows)
  local key = P .. 'job:' .. job_id
  local first = mark and place_after(key, mark[1], mark[2]) or 0
  local names = read_index('ZRANGE', key, first, first + rows - 1)
  local runs = load_runs(names)
  local last
  if #names == rows and read_index('ZCARD', key) > first + rows then
    last = {tonumber(read_index('ZSCORE', key, names[rows])), names[rows]}
  end
  table.sort(runs, function(one, other) return one.id < other.id end)
  return runs, last
end

-- ── steps of a job's sweep ─────────────────────────────────────────────────────────────────────────────────
-- Each function applies a decision to a page of runs, and returns two counts.

local function is_waiting(run)
  return run.state ~= 'running' and get('runs', run.id) ~= nil
end

-- The runs of a paused job: skips slots that never started, and holds the others. Call `release_unused_gates` before.
local function skip_or_hold(runs)
  local skipped, held = 0, 0
  for _, run in ipairs(runs) do
    if is_waiting(run) and is_slot(run.trigger) and run.attempt == 0 then
      skip(run, 'paused', now)
      skipped = skipped + 1
    end
  end
  for _, run in ipairs(runs) do
    if is_waiting(run) then
      clear_lease(run)
      run.state, run.delayed_under = 'scheduled', nil
      set_expiry(run, nil)
      make_unavailable(run)
      held = held + 1
    end
  end
  return skipped, held
end

local function free_held_runs(runs)
  local freed = 0
  for _, run in ipairs(runs) do
    if run.state == 'scheduled' and not run.ready and not run.blocked then
      make_available(run, run.due)
      freed = freed + 1
    end
  end
  return freed, 0
end

local function cancel_waiting(runs)
  local cancelled = 0
  for _, run in ipairs(runs) do
    if is_waiting(run) then
      run.reason = 'deleted'
      end_run(run, 'cancelled', now)
      cancelled = cancelled + 1
    end
  end
  return cancelled, 0
end

-- Moves the runs of an edited job to its new queue, route and level.
local function reroute(job, runs)
  for _, run in ipairs(runs) do
    run.rank, run.route, run.level, run.queue = nil, route_of(job, run.target), job.level, job.queue
    if run.state ~= 'running' and run.ready then
      enter_line(run)
    end
    put('runs', run.id, run)
  end
  release_unused_gates(runs)
  return 0, 0
end

local PAGES = {
  pause = function(_, runs)
    release_unused_gates(runs)
    return skip_or_hold(runs)
  end,
  resume = function(_, runs) return free_held_runs(runs) end,
  delete = function(_, runs) return cancel_waiting(runs) end,
  edit = reroute,
}

-- ── steps of a queue's sweep ───────────────────────────────────────────────────────────────────────────────

-- The runs of a paused queue leave the gates at which they wait, and give up places that they do not use.
local function leave_queue_gates(name, members)
  local mine = {}
  for _, run in ipairs(load_runs(members)) do
    if run.queue == name then
      mine[#mine + 1] = run
    end
  end
  table.sort(mine, function(one, other) return one.id < other.id end)
  release_unused_gates(mine)
end

-- Takes ranks that were computed with other weights from these runs, and puts them into plain lines.
local function drop_turns(runs)
  for _, run in ipairs(runs) do
    if run.rank then
      run.route, run.rank = unranked(run.route), nil
      if run.line then
        enter_line(run)
      else
        put('runs', run.id, run)
      end
    end
  end
end

-- ── start and finish ───────────────────────────────────────────────────────────────────────────────────────

-- Starts a sweep for the runs that are left. Returns its name and number.
local function start_sweep(one, name, sweep)
  local before = get('sweeps', name)
  sweep.before = before and {number = before.number, counted = before.counted} -- a process may still ask for it
  one.sweep, sweep.number = sweep.kind, next_number('sweep')
  put('sweeps', name, sweep)
  zadd(P .. 'sweeping', now, name)
  return {name, sweep.number}
end

local function finish_sweep(one, name, sweep)
  one.sweep, sweep.done = nil, true
  zrem(P .. 'sweeping', name)
  hint('runs', now)
end
