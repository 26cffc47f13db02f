-- Forget finished runs, and count them: `Store.prune_runs`.
--
-- ARGV     states; until_ and after: {ended, run id}; job_id; limit
-- returns  how many went, {ended, run id} of the last that was looked at or nothing, whether there may be more
-- Uses: lines runs gates finish sweeps retention

local index = P .. (ask.job_id and 'ended:' .. ask.job_id or 'ended')
local wanted = {}
for _, state in ipairs(ask.states) do
  wanted[state] = true
end

-- The finished runs behind `after`, up to `until_`: those that ended in the same instant go by id.
local first, found, ids = 0, {}, {}
if ask.after then
  first = place_behind(index, ask.after[1], member(ask.after[2]))
end
local page = look('ZRANGE', index, first, first + ask.limit - 1, 'WITHSCORES')
for place = 1, #page, 2 do
  local run_id, ended = tonumber(page[place]), tonumber(page[place + 1])
  if ended < ask.until_[1] or (ended == ask.until_[1] and run_id <= ask.until_[2]) then
    found[#found + 1] = {ended, run_id}
    ids[#ids + 1] = run_id
  end
end
local gone = forget_runs(ids, function(run) return wanted[run.state] end)
return {gone, found[#found] or ask.after or false, #found == ask.limit and 1 or 0}
