-- The logs of a run's attempts: `Queries.list_logs`.
-- ARGV     run_id
-- returns  {attempt, text}, in no order
-- Uses:

local found, kept = {}, call('HGETALL', P .. 'logs:' .. request.run_id)
for place = 1, #kept, 2 do
  found[#found + 1] = {tonumber(kept[place]), kept[place + 1]}
end
return found
