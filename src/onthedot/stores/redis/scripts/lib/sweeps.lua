-- Sweeps: what a decision about a job or a queue means for each of its runs. One script does no more of them than it is
-- asked for (`rows`), so that nobody waits for long: the decision is written with the first of them, at once and for
-- everybody; what is left is a sweep, which whoever made the decision goes on with, step by step, or else upkeep.
--
-- sweeps    by name, "job:<id>" or "queue:<name>": number, kind, where it has come to, what it has counted
-- sweeping  the names of those that are not done, by the instant of their last step
-- `job.sweep`, `queue.sweep`: the kind of one that is not done. Until then nobody decides anew.

local function check_settled(one, name)
  if one and one.sweep then
    fail('Unsettled', name, find('sweeps', name).number)
  end
end

-- What comes behind this score and name in a sorted set: its place.
local function place_behind(key, score, name)
  local at = text(score)
  local low = look('ZCOUNT', key, '-inf', '(' .. at)
  local high = low + look('ZCOUNT', key, at, at)
  while low < high do -- those of the same score are in the order of their names
    local middle = math.floor((low + high) / 2)
    if look('ZRANGE', key, middle, middle)[1] <= name then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- A page of a job's live runs behind a mark {due, member}, in the order in which they were made; the mark of the last
-- one, or nothing: that was all.
local function page_of_job(job_id, mark, rows)
  local key = P .. 'job:' .. job_id
  local first = mark and place_behind(key, mark[1], mark[2]) or 0
  local names = look('ZRANGE', key, first, first + rows - 1)
  local runs = runs_behind(names)
  local last
  if #names == rows and look('ZCARD', key) > first + rows then
    last = {tonumber(look('ZSCORE', key, names[rows])), names[rows]}
  end
  table.sort(runs, function(one, other) return one.id < other.id end)
  return runs, last
end

-- ── what is done with a page ───────────────────────────────────────────────────────────────────────────────
-- Each gives how many there were: two numbers.

local function still_waits(run)
  return run.state ~= 'running' and find('runs', run.id) ~= nil
end

-- A paused job's runs: slots that are due are skipped, the others held. They stand aside before.
local function hold(runs)
  local skipped, held = 0, 0
  for _, run in ipairs(runs) do
    if still_waits(run) and is_slot(run.trigger) and run.attempt == 0 then
      skip(run, 'paused', now)
      skipped = skipped + 1
    end
  end
  for _, run in ipairs(runs) do
    if still_waits(run) then
      drop_lease(run)
      run.state, run.delayed_under = 'scheduled', nil
      set_expiry(run, nil)
      wait_not(run)
      held = held + 1
    end
  end
  return skipped, held
end

-- Held runs are free.
local function set_free(runs)
  local freed = 0
  for _, run in ipairs(runs) do
    if run.state == 'scheduled' and not run.ready and not run.blocked then
      wait(run, run.due)
      freed = freed + 1
    end
  end
  return freed, 0
end

local function cancel_deleted(runs)
  local cancelled = 0
  for _, run in ipairs(runs) do
    if still_waits(run) then
      run.reason = 'deleted'
      end_run(run, 'cancelled', now)
      cancelled = cancelled + 1
    end
  end
  return cancelled, 0
end

-- An edited job's runs go on where and how it says now.
local function reroute(job, runs)
  for _, run in ipairs(runs) do
    run.rank, run.route, run.level, run.queue = nil, route_of(job, run.target), job.level, job.queue
    if run.state ~= 'running' and run.ready then
      line_up(run)
    end
    keep('runs', run.id, run)
  end
  stand_aside(runs)
  return 0, 0
end

local PAGES = {
  pause = function(_, runs)
    stand_aside(runs)
    return hold(runs)
  end,
  resume = function(_, runs) return set_free(runs) end,
  delete = function(_, runs) return cancel_deleted(runs) end,
  edit = reroute,
}

-- ── queues ─────────────────────────────────────────────────────────────────────────────────────────────────

-- The runs of a paused queue leave the gates at which they wait, and the places that they do not use.
local function leave_gates(name, members)
  local mine = {}
  for _, run in ipairs(runs_behind(members)) do
    if run.queue == name then
      mine[#mine + 1] = run
    end
  end
  table.sort(mine, function(one, other) return one.id < other.id end)
  stand_aside(mine)
end

-- Runs that had turns by other weights are lined up anew.
local function give_up_turns(runs)
  for _, run in ipairs(runs) do
    if run.rank then
      run.route, run.rank = unranked(run.route), nil
      if run.line then
        line_up(run)
      else
        keep('runs', run.id, run)
      end
    end
  end
end

-- ── the sweep itself ───────────────────────────────────────────────────────────────────────────────────────

-- Leave the rest to a sweep: its name and its number.
local function begin_sweep(one, name, sweep)
  local before = find('sweeps', name)
  sweep.before = before and {number = before.number, counted = before.counted} -- somebody may still ask for it
  one.sweep, sweep.number = sweep.kind, take_number('sweep')
  keep('sweeps', name, sweep)
  zadd(P .. 'sweeping', now, name)
  return {name, sweep.number}
end

local function end_sweep(one, name, sweep)
  one.sweep, sweep.done = nil, true
  zrem(P .. 'sweeping', name)
  hint('runs', now)
end
