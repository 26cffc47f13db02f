-- What every script begins with: its question, the clock, how it refuses, what others are told.
--
-- KEYS[1]  the name before every key of this store, with its hash tag: all of them lie in one slot
-- ARGV[1]  the question, as JSON; `now` in it is a test that turns the crank, `me` who asks, `writes` that it may
-- returns  {now, hints as kind, instant, kind, instant …, answer, the number of this write or 0}
--
-- Numbers are doubles: instants in microseconds stay below 2^53 and are exact. `..` and tostring are not (14 digits):
-- an instant becomes text by `text` only.
local call = redis.call
local P = KEYS[1] .. ':'
local ask = cjson.decode(ARGV[1])
local now = ask.now
if not now then
  local time = call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local function text(number)
  return string.format('%.0f', number)
end

-- Refuse. Nothing may have been written before: a script is not undone.
local function fail(kind, ...)
  local said = {kind}
  for place, value in ipairs({...}) do
    said[place + 1] = type(value) == 'number' and text(value) or value
  end
  error({err = 'OTD ' .. cjson.encode(said)})
end

local hinted, told = {}, {}
local function hint(kind, at)
  if not hinted[kind] then
    told[#told + 1] = kind
    hinted[kind] = at
  elseif at < hinted[kind] then
    hinted[kind] = at
  end
end

-- The sequences: "job", "run", "fence", "skip", "node". Never given out twice.
local function take_number(name)
  return call('HINCRBY', P .. 'sequences', name, 1)
end

local function starts_with(whole, start)
  return string.sub(whole, 1, #start) == start
end

local function is_slot(trigger)
  return starts_with(trigger, 'schedule:')
end

-- ── records ────────────────────────────────────────────────────────────────────────────────────────────────
-- A record is a packed table in a hash. Each is read once and written once by a script, so that all of it speaks of
-- the same one.
local tables = {}
local function rows_of(name)
  local rows = tables[name]
  if not rows then
    rows = {known = {}, changed = {}}
    tables[name] = rows
  end
  return rows
end

local function find(name, field)
  field = tostring(field)
  local rows = rows_of(name)
  local known = rows.known[field]
  if known == nil then
    local packed = call('HGET', P .. name, field)
    known = packed and cmsgpack.unpack(packed)
    rows.known[field] = known
  end
  return known or nil
end

-- Read many at once, those that are not known yet.
local function fetch(name, fields)
  local rows, missing = rows_of(name), {}
  for _, field in ipairs(fields) do
    field = tostring(field)
    if rows.known[field] == nil then
      missing[#missing + 1] = field
    end
  end
  for first = 1, #missing, 1000 do
    local last = math.min(first + 999, #missing)
    local found = call('HMGET', P .. name, unpack(missing, first, last))
    for place = first, last do
      local packed = found[place - first + 1]
      rows.known[missing[place]] = packed and cmsgpack.unpack(packed)
    end
  end
end

local function keep(name, field, record)
  field = tostring(field)
  local rows = rows_of(name)
  rows.known[field] = record
  rows.changed[field] = true
end

local function forget(name, field)
  keep(name, field, false)
end

local function write_records()
  for name, rows in pairs(tables) do
    local put, gone = {}, {}
    for field in pairs(rows.changed) do
      local record = rows.known[field]
      if record then
        put[#put + 1] = field
        put[#put + 1] = cmsgpack.pack(record)
      else
        gone[#gone + 1] = field
      end
    end
    for first = 1, #put, 2000 do
      call('HSET', P .. name, unpack(put, first, math.min(first + 1999, #put)))
    end
    for first = 1, #gone, 2000 do
      call('HDEL', P .. name, unpack(gone, first, math.min(first + 1999, #gone)))
    end
  end
end

-- The end of every script: write what has changed, tell who listens, answer.
local function answer(said)
  write_records()
  local hints = {}
  for place, kind in ipairs(told) do
    hints[2 * place - 1] = kind
    hints[2 * place] = hinted[kind]
  end
  if #told > 0 then
    call('PUBLISH', P .. 'hints', (ask.me or '') .. ' ' .. table.concat(told, ' '))
  end
  if said == nil then
    said = false
  end
  local writes = ask.writes and call('HINCRBY', P .. 'sequences', 'write', 1) or 0
  return {now, hints, said, writes}
end

-- A record as a row: these fields in this order.
local function row(record, fields)
  local made = {}
  for place, field in ipairs(fields) do
    local value = record[field]
    if value == nil then
      value = false -- nothing, for who reads it; nil would end the row
    end
    made[place] = value
  end
  return made
end
