-- Come to the store on a new connection. Another server than last time, or the same one started again, may have lost
-- what was acknowledged: numbers that it may have given out before are passed over. One that has lost all does not know
-- that it was another; who comes knows, and says how many writes it has seen.
--
-- ARGV     server: what the server calls itself, anew with every start; seen: the number of the newest write that the
--          caller has had an answer of, or nothing
-- returns  the epoch, which grows with every change of the server; how many writes the store has had
-- Uses:

local JUMP = 1000000 -- more than could be written in the second or so that may be lost
local PER_WRITE = 1000 -- more runs and fences than one write gives out
local HIGHEST = 900000000000 -- ids have twelve digits where they are sorted
local NAMES = {'run', 'fence', 'job', 'skip', 'node', 'sweep', 'document', 'entry'}

local known = call('HGET', P .. 'epoch', 'server')
if known ~= ask.server then
  call('HSET', P .. 'epoch', 'server', ask.server)
  call('HINCRBY', P .. 'epoch', 'number', 1)
  if known then
    for _, name in ipairs(NAMES) do
      call('HINCRBY', P .. 'sequences', name, JUMP) -- nothing is taken from them here
    end
  end
end
local writes = tonumber(call('HGET', P .. 'sequences', 'write') or 0)
if ask.seen and writes < ask.seen then
  local least = math.min(ask.seen * PER_WRITE, HIGHEST)
  for _, name in ipairs(NAMES) do
    if tonumber(call('HGET', P .. 'sequences', name) or 0) < least then
      call('HSET', P .. 'sequences', name, text(least))
    end
  end
end
return {tonumber(call('HGET', P .. 'epoch', 'number')), writes}
