-- Takes runs from dead nodes: `Store.reap`.
-- ARGV     verdicts: run_id, lease, and the verdict (lib/finish.lua)
-- returns  1 or 0 for each
-- Uses: lines runs gates finish nodes

local answers, ids = {}, {}
for place, verdict in ipairs(request.verdicts) do
  ids[place] = verdict.run_id
end
preload('runs', ids)
for place, verdict in ipairs(request.verdicts) do
  local run = get('runs', verdict.run_id)
  answers[place] = 0
  if run and run.state == 'running' and run.lease == verdict.lease then
    local node = get('nodes', run.inc)
    if not is_alive(node) then
      node.ended = true
      put('nodes', run.inc, node)
      zrem(P .. 'beats', run.inc)
      verdict.ended = now
      end_attempt(run, verdict, node.id)
      answers[place] = 1
    end
  end
end
return answers
