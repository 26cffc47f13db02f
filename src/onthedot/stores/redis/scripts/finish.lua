-- Record verdicts: `Store.finish`.
--
-- ARGV     finishes: run_id, lease, and the verdict (lib/finish.lua); most: how many finished runs are kept
-- returns  1 or 0 for each
-- Uses: lines runs gates finish retention

local ids = {}
for place, finish in ipairs(ask.finishes) do
  ids[place] = finish.run_id
end
fetch('runs', ids)

-- Whether this very attempt was recorded before, under this lease, with this outcome.
local function was_recorded(finish)
  local run = find('runs', finish.run_id) or find('history', finish.run_id)
  for _, try in ipairs(run and run.tries or {}) do
    local lease_id, outcome = try[2], try[6]
    if lease_id == finish.lease and outcome == finish.outcome then
      return true
    end
  end
  return false
end

local said = {}
for place, finish in ipairs(ask.finishes) do
  local run = find('runs', finish.run_id)
  if run and run.state == 'running' and run.lease == finish.lease then
    end_attempt(run, finish, find('nodes', run.inc).id)
    said[place] = 1
  else
    said[place] = was_recorded(finish) and 1 or 0
  end
end
trim_history(ask.most, 2 * #said)
return said
