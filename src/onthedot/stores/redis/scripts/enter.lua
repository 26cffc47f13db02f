-- Come to the store on a new connection. Another server than last time, or the same one started again, may have lost
-- what was acknowledged: numbers that it may have given out before are passed over. One that has lost all does not know
-- that it was another; who comes knows, and says how many writes it has seen.
--
-- ARGV     server: what the server calls itself, anew with every start; seen: the number of the newest write that the
--          caller has had an answer of; epoch and before: in which epoch that was, and what the server was called then.
--          Without them the caller has never been here
-- returns  the epoch, which grows with every change of the server; how many of the writes up to then are still there:
--          not how many there are, because others have written since
-- Uses:

local JUMP = 1000000 -- more than could be written in the second or so that may be lost
local PER_WRITE = 1000 -- more runs and fences than one write gives out
local HIGHEST = 900000000000 -- ids have twelve digits where they are sorted
local MOST_STARTS = 100 -- who has missed more than so many does not know what is left
local NAMES = {'run', 'fence', 'job', 'skip', 'node', 'sweep', 'document', 'entry'}

local known = call('HGET', P .. 'epoch', 'server')
local writes = tonumber(call('HGET', P .. 'sequences', 'write') or 0)
if known ~= ask.server then
  call('HSET', P .. 'epoch', 'server', ask.server)
  call('HINCRBY', P .. 'epoch', 'number', 1)
  if known then
    for _, name in ipairs(NAMES) do
      call('HINCRBY', P .. 'sequences', name, JUMP) -- nothing is taken from them here
    end
  end
end

-- With which server each epoch began, and after how many writes.
local epoch = tonumber(call('HGET', P .. 'epoch', 'number'))
call('HSETNX', P .. 'starts', text(epoch), ask.server .. ' ' .. text(writes))
call('HDEL', P .. 'starts', text(epoch - MOST_STARTS))

local function start_of(number)
  local server, after = string.match(call('HGET', P .. 'starts', text(number)) or '', '^(%S*) (%d+)$')
  return server, tonumber(after)
end

local kept = writes
if ask.epoch then
  local server, after = start_of(ask.epoch)
  if server == ask.before then
    server, after = start_of(ask.epoch + 1)
    kept = after or writes
  else
    kept = after or 0 -- it was never here: another server has begun that epoch, or has lost it
  end
end
if ask.seen and kept < ask.seen then
  local least = math.min(ask.seen * PER_WRITE, HIGHEST)
  for _, name in ipairs(NAMES) do
    if tonumber(call('HGET', P .. 'sequences', name) or 0) < least then
      call('HSET', P .. 'sequences', name, text(least))
    end
  end
end
return {epoch, kept}
