-- Deletes finished runs, and counts them by job, day and state in the same write.

local DAY = 86400000000
local job_ids, logs, submit_keys, daily = {}, {}, {}, {}

-- Whether no planner can plan the run's slot again.
local function is_past_planning(run)
  if not is_slot(run.trigger) then
    return true
  end
  local state = schedules_of(run.job)[string.sub(run.trigger, #'schedule:' + 1)]
  return run.slot <= (state and math.min(now, state.watermark) or now)
end

local function delete_run(run)
  delete('history', run.id)
  delete('checkpoints', run.id)
  logs[#logs + 1] = P .. 'logs:' .. run.id
  zrem(P .. 'ended', member(run.id))
  zrem(P .. 'ended:' .. run.job, member(run.id))
  if run.state == 'dead' then
    zrem(P .. 'dead', member(run.id))
  end
  job_ids[run.job] = true
  count_ended(run.state, -1)
  delete_key(run)
  for _, key in ipairs(run.keys or {}) do
    submit_keys[#submit_keys + 1] = run.job .. '\t' .. key
  end
  local day = math.floor(run.ended / DAY) .. '\t' .. run.job .. '\t' .. run.state
  daily[day] = (daily[day] or 0) + 1
end

-- Deletes those of these finished runs that `may_delete` accepts and no planner can plan again. Returns how many.
local function delete_runs(ids, may_delete)
  preload('history', ids)
  local doomed, keys = {}, {}
  for _, run_id in ipairs(ids) do
    local run = get('history', run_id)
    if run and is_past_planning(run) and may_delete(run) then
      doomed[#doomed + 1] = run
      keys[#keys + 1] = key_of(run.job, run.trigger, run.slot, run.target)
    end
  end
  preload('keys', keys)
  for _, run in ipairs(doomed) do
    delete_run(run)
  end
  if #logs > 0 then
    call('DEL', unpack(logs)) -- at most as many as the script reads
  end
  call_with('HDEL', P .. 'submit_keys', submit_keys)
  for day, count in pairs(daily) do
    call('HINCRBY', P .. 'daily', day, count)
  end
  for job_id in pairs(job_ids) do
    if read_index('EXISTS', P .. 'ended:' .. job_id) == 0 then
      zrem(P .. 'jobs_with_history', job_id)
    end
  end
  return #doomed
end

-- Deletes the oldest finished runs if there are more than `most`, but at most `rows`. Returns how many.
local function trim_history(most, rows)
  local excess = math.min(read_index('ZCARD', P .. 'ended') - most, rows)
  if excess <= 0 then
    return 0
  end
  -- Some of the oldest may have to stay, such as slots that were cancelled long ahead. So it reads 20 more.
  local oldest = ids_of(read_index('ZRANGE', P .. 'ended', 0, excess + 19))
  local left = excess
  return delete_runs(oldest, function()
    left = left - 1
    return left >= 0
  end)
end
