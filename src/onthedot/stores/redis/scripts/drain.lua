-- Asks the living incarnations of a node to take no more work, or to take work again: `Store.drain`.
-- ARGV     node_id, draining
-- returns  how many living incarnations there are
-- Uses: nodes

local count = 0
for _, incarnation in ipairs(read_index('ZRANGE', P .. 'registered', 0, -1)) do
  local node = get('nodes', incarnation)
  if node.id == request.node_id and is_alive(node) then
    node.draining = request.draining
    put('nodes', incarnation, node)
    count = count + 1
  end
end
hint('beats', now)
return count
