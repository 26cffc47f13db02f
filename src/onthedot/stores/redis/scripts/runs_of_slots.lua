-- Runs with this trigger whose instants lie in a range: `Queries.runs_of_slots`.
-- ARGV     job_id, trigger, first, last
-- returns  {instant, state}, by instant
-- Uses: lines runs

local found, ids = {}, {}
if is_planned(request.trigger) then
  local index = P .. 'slots:' .. request.job_id .. ':' .. request.trigger
  ids = ids_of(read_index('ZRANGEBYSCORE', index, request.first, request.last))
else -- only one run has such a trigger, or a few have it
  for _, index in ipairs({'job:', 'ended:'}) do
    for _, run_id in ipairs(ids_of(read_index('ZRANGE', P .. index .. request.job_id, 0, -1))) do
      ids[#ids + 1] = run_id
    end
  end
end
for _, run_id in ipairs(ids) do
  local run = get('runs', run_id) or get('history', run_id)
  if run.trigger == request.trigger and request.first <= run.slot and run.slot <= request.last then
    found[#found + 1] = {run.slot, run.state}
  end
end
return found
