-- The ended attempts of a run: `Queries.list_attempts`.
-- ARGV     run_id
-- returns  attempts, in order
-- Uses:

local run = get('runs', request.run_id) or get('history', request.run_id)
return run and run.tries or {}
