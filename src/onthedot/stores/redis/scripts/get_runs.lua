-- Runs by id, live or finished: `Queries.get_run` and `get_runs`.
-- ARGV     run_ids
-- returns  the runs that exist
-- Uses: lines runs rows

local found = {}
for _, run_id in ipairs(request.run_ids) do
  local run = get('runs', run_id) or get('history', run_id)
  if run then
    found[#found + 1] = run_row(run)
  end
end
return found
