-- Record how far runs have come: `Store.checkpoint`.
--
-- ARGV     saves: run_id, lease, revision, value
-- returns  1 or 0 for each
-- Uses:

local said = {}
for place, save in ipairs(ask.saves) do
  local run = find('runs', save.run_id)
  said[place] = 0
  if run and run.state == 'running' and run.lease == save.lease then
    local known = find('checkpoints', save.run_id)
    if not known or known.revision < save.revision then
      keep('checkpoints', save.run_id, {revision = save.revision, value = save.value})
      if not run.saved then
        run.saved = true
        keep('runs', run.id, run)
      end
    end
    said[place] = 1
  end
end
return said
