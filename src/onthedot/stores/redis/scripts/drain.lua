-- Ask the living incarnations of a node to take no more work, or to go on: `Store.drain`.
--
-- ARGV     node_id, draining
-- returns  how many there are
-- Uses: nodes

local count = 0
for _, incarnation in ipairs(look('ZRANGE', P .. 'registered', 0, -1)) do
  local node = find('nodes', incarnation)
  if node.id == ask.node_id and lives(node) then
    node.draining = ask.draining
    keep('nodes', incarnation, node)
    count = count + 1
  end
end
hint('beats', now)
return count
