-- Does one step of a sweep (lib/sweeps.lua).
-- ARGV     name; number: of the sweep whose counts are wanted; rows: the most runs of a step
-- returns  1 if the sweep is done, else 0; its two counts
-- Uses: lines runs gates finish sweeps

local sweep = get('sweeps', request.name)
if not sweep or sweep.number ~= request.number or sweep.done then
  if sweep and sweep.number ~= request.number then
    sweep = sweep.before and sweep.before.number == request.number and sweep.before -- a newer sweep replaced it
  end
  local counted = sweep and sweep.counted or {0, 0}
  return {1, counted[1], counted[2]}
end

-- Each does a step, and returns whether there are more.
local function step_of_queue(name)
  if sweep.kind == 'pause' then
    local page = read_index('SSCAN', P .. 'at_gates', sweep.cursor, 'COUNT', request.rows)
    leave_queue_gates(name, page[2])
    sweep.cursor = page[1]
    return sweep.cursor ~= '0'
  end
  local line = P .. 'old_turns:' .. sweep.routes[#sweep.routes]
  local members = read_index('ZRANGE', line, 0, request.rows - 1)
  drop_turns(load_runs(members))
  call_with('ZREM', line, members)
  if #members < request.rows then
    sweep.routes[#sweep.routes] = nil
  end
  return #sweep.routes > 0
end

local function step_of_job(job)
  local runs, last = page_of_job(job.id, sweep.mark, request.rows)
  local first, second = PAGES[sweep.kind](job, runs)
  sweep.counted = {sweep.counted[1] + first, sweep.counted[2] + second}
  sweep.mark = last
  return last ~= nil
end

local kind, id = string.match(request.name, '^(%a+):(.*)$')
local one, more
if kind == 'job' then
  one = job_of(id)
  more = step_of_job(one)
else
  one = queue_of(id)
  more = step_of_queue(id)
end
zadd(P .. 'sweeping', now, request.name)
if not more then
  finish_sweep(one, request.name, sweep)
  put(kind == 'job' and 'jobs' or 'queues', id, one)
end
put('sweeps', request.name, sweep)
return {more and 0 or 1, sweep.counted[1], sweep.counted[2]}
