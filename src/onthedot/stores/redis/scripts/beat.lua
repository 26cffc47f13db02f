-- Registers an incarnation, or renews its lease: `Store.register` and `beat`.
-- ARGV     incarnation, ttl; node: the fields of a new incarnation; draining: true if it takes no more work
-- returns  the lease's end, {lease, reason} for each attempt that has to stop, whether the node drains
-- Uses: lines runs

local node = get('nodes', request.incarnation)
if not node and request.node then
  node = request.node
  node.registered_at, node.number = now, next_number('node')
  zadd(P .. 'registered', node.number, request.incarnation)
end
if not node or node.ended then
  fail('NodeExpired', 'incarnation ' .. request.incarnation .. ': it has ended; register a new one to go on')
end

local function renew(incarnation, one, ttl)
  one.ttl, one.lease_until = ttl, now + ttl
  put('nodes', incarnation, one)
  zadd(P .. 'beats', now, incarnation)
end

-- A node whose last heartbeat is later than now sent it before the clock was set back. Its lease ends one ttl from now.
for _, incarnation in ipairs(read_index('ZRANGEBYSCORE', P .. 'beats', '(' .. text(now), '+inf')) do
  local other = get('nodes', incarnation)
  renew(incarnation, other, other.ttl)
end
node.draining = node.draining or request.draining
renew(request.incarnation, node, request.ttl)

local stops = {}
for _, run in ipairs(load_runs(read_index('SMEMBERS', P .. 'stopping:' .. request.incarnation))) do
  if run.cancel_wanted and run.inc == request.incarnation then
    stops[#stops + 1] = {run.lease, run.cancel_wanted}
  end
end
return {node.lease_until, stops, node.draining and 1 or 0}
