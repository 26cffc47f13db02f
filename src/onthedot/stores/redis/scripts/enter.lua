-- Come to the store on a new connection. Another server than last time, or the same one started again, may have lost
-- what was acknowledged: numbers that it may have given out before are passed over.
--
-- ARGV     server: what the server calls itself, anew with every start
-- returns  the epoch, which grows with every change of the server; how many writes the store has had
-- Uses:

local JUMP = 1000000 -- more than could be written in the second or so that may be lost

local known = call('HGET', P .. 'epoch', 'server')
if known ~= ask.server then
  call('HSET', P .. 'epoch', 'server', ask.server)
  call('HINCRBY', P .. 'epoch', 'number', 1)
  if known then
    for _, name in ipairs({'run', 'fence', 'job', 'skip', 'node', 'sweep'}) do
      call('HINCRBY', P .. 'sequences', name, JUMP) -- nothing is taken from them here
    end
  end
end
return {tonumber(call('HGET', P .. 'epoch', 'number')), tonumber(call('HGET', P .. 'sequences', 'write') or 0)}
