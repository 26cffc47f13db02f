-- Leases of nodes, terms and the layout.

local function is_alive(node)
  return node ~= nil and not node.ended and node.lease_until > now
end

local function check_lease(incarnation)
  if not is_alive(get('nodes', incarnation)) then
    fail('NodeExpired', 'incarnation ' .. incarnation .. ': its lease has ended; register a new one to go on')
  end
end

local function layout()
  local found = call('HMGET', P .. 'layout', 'version', 'shards')
  return tonumber(found[1] or 1), tonumber(found[2] or 1)
end

local function check_layout(version, shard)
  local current, shards = layout()
  if (version and version ~= current) or shard < 0 or shard >= shards then
    fail('TermLost', 'shard ' .. shard .. ', layout ' .. (version or 'current') .. ': the layout is ' .. current
      .. ', of ' .. shards .. ' by now')
  end
end

-- Whether this is the shard's newest term, of this layout, and has not ended.
local function is_current(term)
  local current = get('terms', term.shard)
  return current ~= nil and current.number == term.number and current.layout == term.layout and current.until_ > now
end

local function check_term(term)
  if not is_current(term) then
    fail('TermLost', 'term ' .. term.number .. ' of shard ' .. term.shard .. ' is over; campaign again before planning')
  end
end

local TERM_FIELDS = {'shard', 'number', 'incarnation', 'until_', 'layout', 'tzdata', 'zones'}

local function term_row(term)
  return row(term, TERM_FIELDS)
end

-- The shard of a bucket, if there are `shards` of them. As in rules/shards.py.
local function shard_of(bucket, shards)
  return math.floor(((bucket + 1) * shards - 1) / 1024)
end
