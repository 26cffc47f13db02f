-- Incarnations, newest first: `Queries.list_nodes`.
-- ARGV     limit; living: only those whose lease has not ended
-- returns  nodes
-- Uses: nodes

local FIELDS = {
  'id', 'incarnation', 'host', 'pid', 'roles', 'queues', 'labels', 'tasks', 'seats', 'draining', 'registered_at',
  'lease_until', 'left_at', 'ttl', 'tzdata',
}

-- `beats` has no incarnation that left or was ended.
local function living()
  local names, found = read_index('ZRANGE', P .. 'beats', 0, -1), {}
  for _, incarnation in ipairs(names) do
    local node = get('nodes', incarnation)
    if is_alive(node) then
      found[#found + 1] = node
    end
  end
  table.sort(found, function(one, other) return one.number > other.number end)
  return found
end

local found = {}
if request.living then
  for place, node in ipairs(living()) do
    if place <= request.limit then
      found[place] = row(node, FIELDS)
    end
  end
else
  for _, incarnation in ipairs(read_index('ZREVRANGE', P .. 'registered', 0, request.limit - 1)) do
    found[#found + 1] = row(get('nodes', incarnation), FIELDS)
  end
end
return found
