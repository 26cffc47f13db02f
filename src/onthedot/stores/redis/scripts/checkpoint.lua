-- Stores checkpoints of runs: `Store.checkpoint`.
-- ARGV     saves: run_id, lease, revision, value
-- returns  1 or 0 for each
-- Uses:

local answers = {}
for place, save in ipairs(request.saves) do
  local run = get('runs', save.run_id)
  answers[place] = 0
  if run and run.state == 'running' and run.lease == save.lease then
    local known = get('checkpoints', save.run_id)
    if not known or known.revision < save.revision then
      put('checkpoints', save.run_id, {revision = save.revision, value = save.value})
      if not run.saved then
        run.saved = true
        put('runs', run.id, run)
      end
    end
    answers[place] = 1
  end
end
return answers
