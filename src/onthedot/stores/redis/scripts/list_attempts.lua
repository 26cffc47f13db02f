-- The ended attempts of a run: `HistorySlice.list_attempts`.
--
-- ARGV     run_id
-- returns  attempts, in order
-- Uses:

local FIELDS = {
  'attempt', 'lease', 'fence', 'node', 'revision', 'outcome', 'error', 'due', 'reserved', 'armed', 'started', 'ended',
}
local run, found = find('runs', ask.run_id) or find('history', ask.run_id), {}
for place, try in ipairs(run and run.tries or {}) do
  found[place] = row(try, FIELDS)
end
return found
