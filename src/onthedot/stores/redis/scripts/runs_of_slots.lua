-- Runs with one trigger whose instants lie in a range: `Store.runs_of_slots`.
--
-- ARGV     job_id, trigger, first, last
-- returns  {instant, state}, by instant
-- Uses: lines runs

local found, ids = {}, {}
if is_planned(ask.trigger) then
  local index = P .. 'slots:' .. ask.job_id .. ':' .. ask.trigger
  ids = ids_of(look('ZRANGEBYSCORE', index, ask.first, ask.last))
else -- one that only one run has, or a few
  for _, index in ipairs({'job:', 'ended:'}) do
    for _, run_id in ipairs(ids_of(look('ZRANGE', P .. index .. ask.job_id, 0, -1))) do
      ids[#ids + 1] = run_id
    end
  end
end
for _, run_id in ipairs(ids) do
  local run = find('runs', run_id) or find('history', run_id)
  if run.trigger == ask.trigger and ask.first <= run.slot and run.slot <= ask.last then
    found[#found + 1] = {run.slot, run.state}
  end
end
return found
