-- Finished runs go, and are counted by job, day and state in the same write.

local DAY = 86400000000
local thinned, logs, submit_keys, daily = {}, {}, {}, {}

-- Whether no planner can come upon the run's slot again.
local function is_settled(run)
  if not is_slot(run.trigger) then
    return true
  end
  local state = schedules_of(run.job)[string.sub(run.trigger, #'schedule:' + 1)]
  return run.slot <= (state and math.min(now, state.watermark) or now)
end

local function forget_run(run)
  forget('history', run.id)
  forget('checkpoints', run.id)
  logs[#logs + 1] = P .. 'logs:' .. run.id
  zrem(P .. 'ended', member(run.id))
  zrem(P .. 'ended:' .. run.job, member(run.id))
  if run.state == 'dead' then
    zrem(P .. 'dead', member(run.id))
  end
  thinned[run.job] = true
  count_ended(run.state, -1)
  forget_key(run)
  for _, key in ipairs(run.keys or {}) do
    submit_keys[#submit_keys + 1] = run.job .. '\t' .. key
  end
  local day = math.floor(run.ended / DAY) .. '\t' .. run.job .. '\t' .. run.state
  daily[day] = (daily[day] or 0) + 1
end

-- Of these finished runs those that `may_go`, and that nobody will come upon again; how many.
local function forget_runs(ids, may_go)
  fetch('history', ids)
  local going, keys = {}, {}
  for _, run_id in ipairs(ids) do
    local run = find('history', run_id)
    if run and is_settled(run) and may_go(run) then
      going[#going + 1] = run
      keys[#keys + 1] = key_of(run.job, run.trigger, run.slot, run.target)
    end
  end
  fetch('keys', keys)
  for _, run in ipairs(going) do
    forget_run(run)
  end
  if #logs > 0 then
    call('DEL', unpack(logs)) -- as many as are looked at, at the most
  end
  call_with('HDEL', P .. 'submit_keys', submit_keys)
  for day, count in pairs(daily) do
    call('HINCRBY', P .. 'daily', day, count)
  end
  for job_id in pairs(thinned) do
    if look('EXISTS', P .. 'ended:' .. job_id) == 0 then
      zrem(P .. 'jobs_with_history', job_id)
    end
  end
  return #going
end

-- The oldest finished runs go beyond `most`, but no more than `rows` of them at once; how many.
local function trim_history(most, rows)
  local over = math.min(look('ZCARD', P .. 'ended') - most, rows)
  if over <= 0 then
    return 0
  end
  -- Some of the oldest may have to stay: slots that were cancelled long ahead.
  local oldest = ids_of(look('ZRANGE', P .. 'ended', 0, over + 19))
  local left = over
  return forget_runs(oldest, function()
    left = left - 1
    return left >= 0
  end)
end
