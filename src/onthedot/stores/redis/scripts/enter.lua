-- Checks the server of a new connection for lost writes.
-- A server that was restarted or replaced may have lost acknowledged writes. Then the script skips numbers that the
-- server may have used before. A server that lost everything cannot know that it is another one. So the client sends
-- the number of the newest write that it saw.
--
-- ARGV     server: the server's run id, which changes with each start
--          seen: the number of the newest write that the client has an answer to
--          epoch, before: the epoch of that answer, and the run id of the server then; nil for a new client
-- returns  the epoch, which grows when the server changes
--          how many writes the store had when the client's epoch ended; now, if it has not ended
-- Uses:

local JUMP = 1000000 -- more numbers than could be used in the second or so that may be lost
local PER_WRITE = 1000 -- more runs and fences than one write makes
local HIGHEST = 900000000000 -- ids have twelve digits where they are sorted
local MOST_STARTS = 100 -- a client that missed more epochs cannot learn what is left
local NAMES = {'run', 'fence', 'job', 'skip', 'node', 'sweep', 'document', 'entry'}

local known = call('HGET', P .. 'epoch', 'server')
local writes = tonumber(call('HGET', P .. 'sequences', 'write') or 0)
if known ~= request.server then
  call('HSET', P .. 'epoch', 'server', request.server)
  call('HINCRBY', P .. 'epoch', 'number', 1)
  if known then
    for _, name in ipairs(NAMES) do
      call('HINCRBY', P .. 'sequences', name, JUMP)
    end
  end
end

-- `starts` has for each epoch the server's run id and the number of writes at its start.
local epoch = tonumber(call('HGET', P .. 'epoch', 'number'))
call('HSETNX', P .. 'starts', text(epoch), request.server .. ' ' .. text(writes))
call('HDEL', P .. 'starts', text(epoch - MOST_STARTS))

local function start_of(number)
  local server, after = string.match(call('HGET', P .. 'starts', text(number)) or '', '^(%S*) (%d+)$')
  return server, tonumber(after)
end

local kept = writes
if request.epoch then -- the epoch after the client's began with the writes that were kept
  local server, after = start_of(request.epoch)
  if server == request.before then
    server, after = start_of(request.epoch + 1)
    kept = after or writes
  else
    kept = after or 0 -- another server began that epoch, or this server lost it
  end
end
if request.seen and kept < request.seen then
  local least = math.min(request.seen * PER_WRITE, HIGHEST)
  for _, name in ipairs(NAMES) do
    if tonumber(call('HGET', P .. 'sequences', name) or 0) < least then
      call('HSET', P .. 'sequences', name, text(least))
    end
  end
end
return {epoch, kept}
