-- Deletes finished runs, and counts them: `Store.prune_runs`.
-- ARGV     states; until_ and after: {ended, run id}; job_id; limit
-- returns  how many it deleted, {ended, run id} of the last run that was read or nil, 1 if there may be more, else 0
-- Uses: lines runs gates finish sweeps retention

local index = P .. (request.job_id and 'ended:' .. request.job_id or 'ended')
local wanted = {}
for _, state in ipairs(request.states) do
  wanted[state] = true
end

-- The finished runs after `after`, up to `until_`. Runs that ended at the same instant are sorted by id.
local first, found, ids = 0, {}, {}
if request.after then
  first = place_after(index, request.after[1], member(request.after[2]))
end
local page = read_index('ZRANGE', index, first, first + request.limit - 1, 'WITHSCORES')
for place = 1, #page, 2 do
  local run_id, ended = tonumber(page[place]), tonumber(page[place + 1])
  if ended < request.until_[1] or (ended == request.until_[1] and run_id <= request.until_[2]) then
    found[#found + 1] = {ended, run_id}
    ids[#ids + 1] = run_id
  end
end
local deleted = delete_runs(ids, function(run) return wanted[run.state] end)
return {deleted, found[#found] or request.after or false, #found == request.limit and 1 or 0}
