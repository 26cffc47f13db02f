-- Deletes incarnations whose lease had ended by then and that hold no run: `Store.prune_nodes`.
-- ARGV     until_, limit
-- returns  how many it deleted
-- Uses:

local deleted = 0
for _, incarnation in ipairs(read_index('ZRANGE', P .. 'registered', 0, -1)) do
  local node = get('nodes', incarnation)
  if deleted < request.limit and node.lease_until <= request.until_
    and read_index('EXISTS', P .. 'held:' .. incarnation) == 0 then
    delete('nodes', incarnation)
    zrem(P .. 'registered', incarnation)
    zrem(P .. 'beats', incarnation)
    call('DEL', P .. 'stopping:' .. incarnation)
    deleted = deleted + 1
  end
end
return deleted
