-- The ended attempts of a run: `Store.list_attempts`.
--
-- ARGV     run_id
-- returns  attempts, in order
-- Uses:

local run = find('runs', ask.run_id) or find('history', ask.run_id)
return run and run.tries or {}
