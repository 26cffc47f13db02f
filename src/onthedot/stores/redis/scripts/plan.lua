-- Inserts runs and skips and moves watermarks: `Store.plan`.
-- ARGV     term; windows, each with the job_id and the revision that it was computed for
-- returns  1 or 0 for each window
-- Uses: lines runs gates finish windows nodes

check_term(request.term)

local function plan(window)
  local job, states = job_of(window.job_id), schedules_of(window.job_id)
  local state = states[window.schedule_id]
  if not state or state.watermark ~= window.start then
    return 0
  end
  if job.revision ~= window.revision or job.state ~= 'active' or covers_exception(window, state.exceptions) then
    return 0
  end
  apply_window(job, state, window)
  put_schedules(job.id, states)
  return 1
end

local answers = {}
for place, window in ipairs(request.windows) do
  answers[place] = plan(window)
end
return answers
