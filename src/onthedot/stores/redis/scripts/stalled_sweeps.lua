-- Sweeps that nobody has gone on with for a while.
--
-- ARGV     idle: for how long
-- returns  {name, number} of each
-- Uses:

local found = {}
for place, name in ipairs(look('ZRANGEBYSCORE', P .. 'sweeping', '-inf', text(now - ask.idle), 'LIMIT', 0, 100)) do
  found[place] = {name, find('sweeps', name).number}
end
return found
