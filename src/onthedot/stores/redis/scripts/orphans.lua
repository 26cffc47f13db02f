-- Running attempts whose incarnation's lease has ended: `UpkeepSlice.orphans`.
--
-- ARGV     limit
-- returns  leases and jobs
-- Uses: lines runs nodes shown

local found = {}
for _, incarnation in ipairs(look('ZRANGE', P .. 'registered', 0, -1)) do
  if #found >= ask.limit then
    break
  end
  if not lives(find('nodes', incarnation)) then
    for _, run in ipairs(runs_behind(look('SMEMBERS', P .. 'held:' .. incarnation))) do
      if run.state == 'running' and #found < ask.limit then
        found[#found + 1] = run
      end
    end
  end
end
return leases_and_jobs(found)
