-- Runs by id, live or finished: `Store.get_run` and `get_runs`.
--
-- ARGV     run_ids
-- returns  those that are there
-- Uses: lines runs rows

local found = {}
for _, run_id in ipairs(ask.run_ids) do
  local run = find('runs', run_id) or find('history', run_id)
  if run then
    found[#found + 1] = run_row(run)
  end
end
return found
