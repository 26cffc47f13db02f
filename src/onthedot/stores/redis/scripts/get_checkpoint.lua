-- The newest checkpoint of a run: `Queries.get_checkpoint`.
-- ARGV     run_id
-- returns  revision, value; or nil
-- Uses:

local known = get('checkpoints', request.run_id)
return known and {known.revision, known.value}
