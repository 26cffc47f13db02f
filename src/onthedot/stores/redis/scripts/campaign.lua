-- Become the planner of a shard: `Store.campaign`.
--
-- ARGV     incarnation, ttl, shard, layout, patience
-- returns  the term, or nothing
-- Uses: lines runs nodes

check_lease(ask.incarnation)
check_layout(ask.layout, ask.shard)
local me, current = find('nodes', ask.incarnation), find('terms', ask.shard)

if current and current.until_ > now and current.incarnation ~= '' then
  if current.incarnation == ask.incarnation then
    current.until_, current.ttl = now + ask.ttl, math.max(ask.ttl, current.ttl)
    keep('terms', ask.shard, current)
    return term_row(current)
  end
  if current.until_ > now + current.ttl then -- the clock was set back
    current.until_ = now + current.ttl
    keep('terms', ask.shard, current)
  end
  return
end

-- Zone data: 2025z is followed by 2025za. What is no version is older than all.
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

local patient, earlier, first = current and now < current.until_ + ask.patience, true, true
for _, incarnation in ipairs(look('ZRANGE', P .. 'registered', 0, -1)) do
  local node = find('nodes', incarnation)
  if plans(node) and node.lease_until > now then
    if not node.draining and is_newer(node.tzdata, me.tzdata) then
      return
    end
    earlier = earlier and incarnation ~= ask.incarnation
    if earlier and patient and node.tzdata == me.tzdata and incarnation ~= current.incarnation then
      first = false -- somebody registered before this one, and was not the last to lead
    end
  end
end
if patient and not first then
  return
end

local version = layout()
local term = {
  shard = ask.shard, incarnation = ask.incarnation, until_ = now + ask.ttl, layout = version, tzdata = me.tzdata,
  ttl = ask.ttl,
}
if current then
  term.number, term.zones = current.number + 1, current.zones
else -- where nothing hangs on zones yet, everything is computed with the right ones
  term.number, term.zones = 1, look('EXISTS', P .. 'zoned') == 1 and '' or me.tzdata
end
keep('terms', ask.shard, term)
return term_row(term)
