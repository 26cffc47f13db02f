-- The newest checkpoint of a run: `Store.get_checkpoint`.
--
-- ARGV     run_id
-- returns  revision, value; or nothing
-- Uses:

local known = find('checkpoints', ask.run_id)
return known and {known.revision, known.value}
