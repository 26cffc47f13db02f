-- Forget finished runs, and count them: `RetentionSlice.prune_runs`.
--
-- ARGV     states; until_ and after: {ended, run id}; job_id; limit
-- returns  how many went, {ended, run id} of the last that was looked at or nothing, whether there may be more
-- Uses: lines runs

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

local function forget_run(run)
  forget('history', run.id)
  forget('checkpoints', run.id)
  call('DEL', P .. 'logs:' .. run.id)
  zrem(P .. 'ended', member(run.id))
  zrem(P .. 'ended:' .. run.job, member(run.id))
  if look('EXISTS', P .. 'ended:' .. run.job) == 0 then
    zrem(P .. 'jobs_with_history', run.job)
  end
  count_ended(run.state, -1)
  forget_key(run)
  for _, key in ipairs(run.keys or {}) do
    call('HDEL', P .. 'submit_keys', run.job .. '\t' .. key)
  end
  call('HINCRBY', P .. 'daily', math.floor(run.ended / DAY) .. '\t' .. run.job .. '\t' .. run.state, 1)
end

-- The finished runs behind `after`, up to `until_`: those that ended in the same instant go by id.
local from, offset, found = '-inf', 0, {}
if ask.after then
  from = text(ask.after[1])
end
repeat
  local page = look('ZRANGEBYSCORE', index, from, text(ask.until_[1]), 'WITHSCORES', 'LIMIT', offset, ask.limit)
  for place = 1, #page, 2 do
    local run_id, ended = tonumber(page[place]), tonumber(page[place + 1])
    local behind = not ask.after or ended > ask.after[1] or run_id > ask.after[2]
    local within = ended < ask.until_[1] or run_id <= ask.until_[2]
    if behind and within and #found < ask.limit then
      found[#found + 1] = {ended, run_id}
    end
  end
  offset = offset + #page / 2
until #page < 2 * ask.limit or #found >= ask.limit

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
return {gone, found[#found] or ask.after or false, #found == ask.limit and 1 or 0}
