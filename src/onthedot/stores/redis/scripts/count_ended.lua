-- Counts the finished runs that are kept, by state. A part of `Queries.count_runs`.
-- returns  state, count, state, count …
-- Uses:

local kept = call('HGETALL', P .. 'counts')
for place = 2, #kept, 2 do
  kept[place] = tonumber(kept[place])
end
return kept
