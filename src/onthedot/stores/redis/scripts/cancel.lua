-- Cancels runs, one by one: `Store.cancel`.
-- ARGV     run_ids, why
-- returns  {kind, state} for each
-- Uses: lines runs gates finish windows

local function put_cancelled_slot(run)
  local states = schedules_of(run.job)
  local state = states[string.sub(run.trigger, #'schedule:' + 1)]
  if state then
    put_exception(state, {slot = run.slot, reason = 'cancelled', recorded = true})
    put_schedules(run.job, states)
  end
end

local function cancel(run_id)
  local run = get('runs', run_id)
  if not run then
    local finished = get('history', run_id)
    return finished and {'ended', finished.state} or {'unknown', false}
  end
  if run.state == 'running' then
    ask_to_stop(run, request.why, now)
    return {'asked', 'running'}
  end
  run.reason = request.why
  end_run(run, 'cancelled', now)
  if is_slot(run.trigger) and run.slot > now and not run.target then -- with a target, it is one run of several
    put_cancelled_slot(run)
  end
  return {'cancelled', 'cancelled'}
end

local answers = {}
for place, run_id in ipairs(request.run_ids) do
  answers[place] = cancel(run_id)
end
return answers
