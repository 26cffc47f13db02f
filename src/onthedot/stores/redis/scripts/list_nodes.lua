-- Incarnations, newest first: `Store.list_nodes`.
--
-- ARGV     limit; living: only those whose lease goes on
-- returns  nodes
-- Uses: nodes

local FIELDS = {
  'id', 'incarnation', 'host', 'pid', 'roles', 'queues', 'labels', 'tasks', 'seats', 'draining', 'registered_at',
  'lease_until', 'left_at', 'ttl', 'tzdata',
}

-- Whoever left or was ended has no beats.
local function living()
  local names, found = look('ZRANGE', P .. 'beats', 0, -1), {}
  for _, incarnation in ipairs(names) do
    local node = find('nodes', incarnation)
    if lives(node) then
      found[#found + 1] = node
    end
  end
  table.sort(found, function(one, other) return one.number > other.number end)
  return found
end

local found = {}
if ask.living then
  for place, node in ipairs(living()) do
    if place <= ask.limit then
      found[place] = row(node, FIELDS)
    end
  end
else
  for _, incarnation in ipairs(look('ZREVRANGE', P .. 'registered', 0, ask.limit - 1)) do
    found[#found + 1] = row(find('nodes', incarnation), FIELDS)
  end
end
return found
