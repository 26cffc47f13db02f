-- Forget finished runs, and count them: `RetentionSlice.prune_runs`.
--
-- ARGV     states; until_ and after: {ended, run id}; job_id; limit
-- returns  how many went, {ended, run id} of the last that was looked at or nothing, whether there may be more
-- Uses: lines runs gates ends sweeps

local DAY = 86400000000
local index = P .. (ask.job_id and 'ended:' .. ask.job_id or 'ended')
local wanted = {}
for _, state in ipairs(ask.states) do
  wanted[state] = true
end

-- Whether no planner can come upon the run's slot again.
local function schedule_of(run)
  return schedules_of(run.job)[string.sub(run.trigger, #'schedule:' + 1)]
end

local function is_settled(run)
  if not is_slot(run.trigger) then
    return true
  end
  local state = schedule_of(run)
  return run.slot <= (state and math.min(now, state.watermark) or now)
end

local thinned, logs, keys, daily = {}, {}, {}, {}
local function forget_run(run)
  forget('history', run.id)
  forget('checkpoints', run.id)
  logs[#logs + 1] = P .. 'logs:' .. run.id
  zrem(P .. 'ended', member(run.id))
  zrem(P .. 'ended:' .. run.job, member(run.id))
  thinned[run.job] = true
  count_ended(run.state, -1)
  forget_key(run)
  for _, key in ipairs(run.keys or {}) do
    keys[#keys + 1] = run.job .. '\t' .. key
  end
  local day = math.floor(run.ended / DAY) .. '\t' .. run.job .. '\t' .. run.state
  daily[day] = (daily[day] or 0) + 1
end

-- The finished runs behind `after`, up to `until_`: those that ended in the same instant go by id.
local first, found = 0, {}
if ask.after then
  first = place_behind(index, ask.after[1], member(ask.after[2]))
end
local page = look('ZRANGE', index, first, first + ask.limit - 1, 'WITHSCORES')
for place = 1, #page, 2 do
  local run_id, ended = tonumber(page[place]), tonumber(page[place + 1])
  if ended < ask.until_[1] or (ended == ask.until_[1] and run_id <= ask.until_[2]) then
    found[#found + 1] = {ended, run_id}
  end
end

local ids, gone = {}, 0
for place, mark in ipairs(found) do
  ids[place] = mark[2]
end
fetch('history', ids)
for _, run_id in ipairs(ids) do
  local run = find('history', run_id)
  if wanted[run.state] and is_settled(run) then
    forget_run(run)
    gone = gone + 1
  end
end
if #logs > 0 then
  call('DEL', unpack(logs)) -- as many as are looked at, at the most
end
call_with('HDEL', P .. 'submit_keys', keys)
for day, count in pairs(daily) do
  call('HINCRBY', P .. 'daily', day, count)
end
for job_id in pairs(thinned) do
  if look('EXISTS', P .. 'ended:' .. job_id) == 0 then
    zrem(P .. 'jobs_with_history', job_id)
  end
end
return {gone, found[#found] or ask.after or false, #found == ask.limit and 1 or 0}
