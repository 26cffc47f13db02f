-- Changes the number of shards: `Store.set_shards`.
-- ARGV     shards, expected
-- returns  version, shards
-- Uses: nodes

local version, old = layout()
if old == request.shards then
  return {version, old}
end
if request.expected and request.expected ~= version then
  fail('LayoutConflict', 'layout: expected version ' .. request.expected .. ', found ' .. version .. '; read it again')
end
version = version + 1
call('HSET', P .. 'layout', 'version', version, 'shards', request.shards)

local zones, agree, every = nil, true, {}
for _, shard in ipairs(call('HKEYS', P .. 'terms')) do
  local term = get('terms', shard)
  every[term.shard] = true
  if term.shard < old then
    agree = agree and (zones == nil or zones == term.zones)
    zones = term.zones
  end
end
for shard = 0, request.shards - 1 do
  every[shard] = true
end
for shard in pairs(every) do
  local term = get('terms', shard)
  put('terms', shard, {
    shard = shard, number = term and term.number or 0, incarnation = '', until_ = now, layout = version, tzdata = '',
    zones = agree and zones or '', ttl = term and term.ttl or 0,
  })
end
hint('terms', now)
return {version, request.shards}
