-- Take runs from dead nodes: `Store.reap`.
--
-- ARGV     verdicts: run_id, lease, and the verdict (lib/finish.lua)
-- returns  1 or 0 for each
-- Uses: lines runs gates finish nodes

local said, ids = {}, {}
for place, verdict in ipairs(ask.verdicts) do
  ids[place] = verdict.run_id
end
fetch('runs', ids)
for place, verdict in ipairs(ask.verdicts) do
  local run = find('runs', verdict.run_id)
  said[place] = 0
  if run and run.state == 'running' and run.lease == verdict.lease then
    local node = find('nodes', run.inc)
    if not lives(node) then
      node.ended = true
      keep('nodes', run.inc, node)
      zrem(P .. 'beats', run.inc)
      verdict.ended = now
      end_attempt(run, verdict, node.id)
      said[place] = 1
    end
  end
end
return said
