-- A step of a sweep (lib/sweeps.lua).
--
-- ARGV     name; number: whose answer is wanted; rows: how many runs at the most
-- returns  1 if it is done, else 0; the two numbers that it has counted
-- Uses: lines runs gates finish sweeps

local sweep = find('sweeps', ask.name)
if not sweep or sweep.number ~= ask.number or sweep.done then
  if sweep and sweep.number ~= ask.number then
    sweep = sweep.before and sweep.before.number == ask.number and sweep.before -- others have decided anew since
  end
  local counted = sweep and sweep.counted or {0, 0}
  return {1, counted[1], counted[2]}
end

-- So many runs more of a queue; whether there are others.
local function step_of_queue(name)
  if sweep.kind == 'pause' then
    local page = look('SSCAN', P .. 'at_gates', sweep.cursor, 'COUNT', ask.rows)
    leave_gates(name, page[2])
    sweep.cursor = page[1]
    return sweep.cursor ~= '0'
  end
  local line = P .. 'old_turns:' .. sweep.routes[#sweep.routes]
  local members = look('ZRANGE', line, 0, ask.rows - 1)
  give_up_turns(runs_behind(members))
  call_with('ZREM', line, members)
  if #members < ask.rows then
    sweep.routes[#sweep.routes] = nil
  end
  return #sweep.routes > 0
end

local function step_of_job(job)
  local runs, last = page_of_job(job.id, sweep.mark, ask.rows)
  local first, second = PAGES[sweep.kind](job, runs)
  sweep.counted = {sweep.counted[1] + first, sweep.counted[2] + second}
  sweep.mark = last
  return last ~= nil
end

local kind, id = string.match(ask.name, '^(%a+):(.*)$')
local one, more
if kind == 'job' then
  one = job_of(id)
  more = step_of_job(one)
else
  one = queue_of(id)
  more = step_of_queue(id)
end
zadd(P .. 'sweeping', now, ask.name)
if not more then
  end_sweep(one, ask.name, sweep)
  keep(kind == 'job' and 'jobs' or 'queues', id, one)
end
keep('sweeps', ask.name, sweep)
return {more and 0 or 1, sweep.counted[1], sweep.counted[2]}
