-- Enter a new incarnation, or renew its lease: `Store.register` and `beat`.
--
-- ARGV     incarnation, ttl; node: who is to be entered, if it is not known
-- returns  the lease's end, {lease, why} for each attempt that is to stop, whether it is to take no more work
-- Uses: lines runs

local node = find('nodes', ask.incarnation)
if not node and ask.node then
  node = ask.node
  node.registered_at, node.number = now, take_number('node')
  zadd(P .. 'registered', node.number, ask.incarnation)
end
if not node or node.ended then
  fail('NodeExpired', 'incarnation ' .. ask.incarnation .. ': it has ended; register a new one to go on')
end

local function renew(incarnation, one, ttl)
  one.ttl, one.lease_until = ttl, now + ttl
  keep('nodes', incarnation, one)
  zadd(P .. 'beats', now, incarnation)
end

-- Whoever has beaten later than now did so before the clock was set back: its lease ends a whole one from now.
for _, incarnation in ipairs(look('ZRANGEBYSCORE', P .. 'beats', '(' .. text(now), '+inf')) do
  local other = find('nodes', incarnation)
  renew(incarnation, other, other.ttl)
end
renew(ask.incarnation, node, ask.ttl)

local stops = {}
for _, run in ipairs(runs_behind(look('SMEMBERS', P .. 'stopping:' .. ask.incarnation))) do
  if run.cancel_wanted and run.inc == ask.incarnation then
    stops[#stops + 1] = {run.lease, run.cancel_wanted}
  end
end
return {node.lease_until, stops, node.draining and 1 or 0}
