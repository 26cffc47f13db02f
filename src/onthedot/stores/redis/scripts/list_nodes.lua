-- Incarnations, newest first: `NodesSlice.list_nodes`.
--
-- ARGV     limit
-- returns  nodes
-- Uses:

local FIELDS = {
  'id', 'incarnation', 'host', 'pid', 'roles', 'queues', 'labels', 'tasks', 'seats', 'draining', 'registered_at',
  'lease_until', 'left_at', 'ttl', 'tzdata',
}
local found = {}
for _, incarnation in ipairs(look('ZREVRANGE', P .. 'registered', 0, ask.limit - 1)) do
  found[#found + 1] = row(find('nodes', incarnation), FIELDS)
end
return found
