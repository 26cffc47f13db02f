-- Starts a term, so that the node becomes the planner of a shard: `Store.campaign`.
-- ARGV     incarnation, ttl, shard, layout, patience
-- returns  the term, or nil
-- Uses: lines runs nodes

check_lease(request.incarnation)
check_layout(request.layout, request.shard)
local me, current = get('nodes', request.incarnation), get('terms', request.shard)

if current and current.until_ > now and current.incarnation ~= '' then
  if current.incarnation == request.incarnation then
    current.until_, current.ttl = now + request.ttl, math.max(request.ttl, current.ttl)
    put('terms', request.shard, current)
    return term_row(current)
  end
  if current.until_ > now + current.ttl then -- the clock was set back
    current.until_ = now + current.ttl
    put('terms', request.shard, current)
  end
  return
end

-- Compares versions of zone data: 2025za follows 2025z. A text that is no version is older than all versions.
local function is_newer(version, other)
  local year, letters = string.match(version, '^(%d%d%d%d)(%l+)$')
  local its_year, its_letters = string.match(other, '^(%d%d%d%d)(%l+)$')
  if not year or not its_year then
    return year ~= nil and its_year == nil
  end
  if year ~= its_year then
    return year > its_year
  end
  if #letters ~= #its_letters then
    return #letters > #its_letters
  end
  return letters > its_letters
end

local function plans(node)
  for _, role in ipairs(node.roles) do
    if role == 'planner' then
      return true
    end
  end
  return false
end

local has_patience = current and now < current.until_ + request.patience
local is_earlier, is_first = true, true
for _, incarnation in ipairs(read_index('ZRANGE', P .. 'registered', 0, -1)) do
  local node = get('nodes', incarnation)
  if plans(node) and node.lease_until > now then
    if not node.draining and is_newer(node.tzdata, me.tzdata) then
      return
    end
    is_earlier = is_earlier and incarnation ~= request.incarnation
    if is_earlier and has_patience and node.tzdata == me.tzdata and incarnation ~= current.incarnation then
      is_first = false -- another node registered earlier, and was not the last leader
    end
  end
end
if has_patience and not is_first then
  return
end

local version = layout()
local term = {
  shard = request.shard, incarnation = request.incarnation, until_ = now + request.ttl, layout = version,
  tzdata = me.tzdata, ttl = request.ttl,
}
if current then
  term.number, term.zones = current.number + 1, current.zones
else -- without schedules in time zones, all next slots are right for this node's zone data
  term.number, term.zones
    = 1, read_index('EXISTS', P .. 'zoned') == 1 and '' or me.tzdata
end
put('terms', request.shard, term)
return term_row(term)
