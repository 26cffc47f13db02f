-- Records verdicts: `Store.finish`.
-- ARGV     finishes: run_id, lease, and the verdict (lib/finish.lua); most: how many finished runs are kept
-- returns  1 or 0 for each
-- Uses: lines runs gates finish retention

local ids = {}
for place, finish in ipairs(request.finishes) do
  ids[place] = finish.run_id
end
preload('runs', ids)

-- Whether this attempt was recorded before under this lease with this outcome.
local function was_recorded(finish)
  local run = get('runs', finish.run_id) or get('history', finish.run_id)
  for _, try in ipairs(run and run.tries or {}) do
    local lease_id, outcome = try[2], try[6]
    if lease_id == finish.lease and outcome == finish.outcome then
      return true
    end
  end
  return false
end

local answers = {}
for place, finish in ipairs(request.finishes) do
  local run = get('runs', finish.run_id)
  if run and run.state == 'running' and run.lease == finish.lease then
    end_attempt(run, finish, get('nodes', run.inc).id)
    answers[place] = 1
  else
    answers[place] = was_recorded(finish) and 1 or 0
  end
end
trim_history(request.most, 2 * #answers)
return answers
