-- Lists sweeps that have made no step for some time: their process may have died. A part of `Store.recount_gates`.
-- ARGV     idle: how long, in microseconds
-- returns  {name, number} of each
-- Uses:

local found = {}
for place, name in ipairs(
  read_index('ZRANGEBYSCORE', P .. 'sweeping', '-inf', text(now - request.idle), 'LIMIT', 0, 100)
) do
  found[place] = {name, get('sweeps', name).number}
end
return found
