-- Forget incarnations whose lease ended long ago and who hold nothing: `Store.prune_nodes`.
--
-- ARGV     until_, limit
-- returns  how many went
-- Uses:

local gone = 0
for _, incarnation in ipairs(look('ZRANGE', P .. 'registered', 0, -1)) do
  local node = find('nodes', incarnation)
  if gone < ask.limit and node.lease_until <= ask.until_ and look('EXISTS', P .. 'held:' .. incarnation) == 0 then
    forget('nodes', incarnation)
    zrem(P .. 'registered', incarnation)
    zrem(P .. 'beats', incarnation)
    call('DEL', P .. 'stopping:' .. incarnation)
    gone = gone + 1
  end
end
return gone
