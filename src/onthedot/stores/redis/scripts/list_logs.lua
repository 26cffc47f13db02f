-- What the attempts of a run have logged: `Store.list_logs`.
--
-- ARGV     run_id
-- returns  {attempt, text}, in whatever order
-- Uses:

local found, kept = {}, call('HGETALL', P .. 'logs:' .. ask.run_id)
for place = 1, #kept, 2 do
  found[#found + 1] = {tonumber(kept[place]), kept[place + 1]}
end
return found
