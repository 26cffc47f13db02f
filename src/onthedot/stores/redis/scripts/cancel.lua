-- Cancel runs, one by one: `Store.cancel`.
--
-- ARGV     run_ids, why
-- returns  {kind, state} for each
-- Uses: lines runs gates finish windows

local function except_ahead(run)
  local states = schedules_of(run.job)
  local state = states[string.sub(run.trigger, #'schedule:' + 1)]
  if state then
    note_exception(state, {slot = run.slot, reason = 'cancelled', recorded = true})
    keep_schedules(run.job, states)
  end
end

local function cancel(run_id)
  local run = find('runs', run_id)
  if not run then
    local over = find('history', run_id)
    return over and {'ended', over.state} or {'unknown', false}
  end
  if run.state == 'running' then
    ask_to_stop(run, ask.why, now)
    return {'asked', 'running'}
  end
  run.reason = ask.why
  end_run(run, 'cancelled', now)
  if is_slot(run.trigger) and run.slot > now and not run.target then -- one node's is not the slot's
    except_ahead(run)
  end
  return {'cancelled', 'cancelled'}
end

local said = {}
for place, run_id in ipairs(ask.run_ids) do
  said[place] = cancel(run_id)
end
return said
