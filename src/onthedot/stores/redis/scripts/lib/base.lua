-- What every script begins with: its question, the clock, how it refuses, what others are told.
--
-- KEYS[1]  the name before every key of this store, with its hash tag: all of them lie in one slot
-- ARGV[1]  the question, as JSON; `now` in it is a test that turns the crank, `me` who asks, `writes` that it may
-- returns  {now, hints as kind, instant, kind, instant …, answer, the number of this write or 0}
--
-- Numbers are doubles: instants in microseconds are exact below 2^53, which is in the year 2255, and whole seconds far
-- beyond. `..` and tostring are not (14 digits): an instant becomes text by `text` only.
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
  end
  hinted[kind] = math.min(hinted[kind] or at, at)
end

-- The sequences: "job", "run", "fence", "skip", "node", "document", "entry". Never given out twice.
local numbers = {}
local function take_number(name)
  local last = numbers[name] or tonumber(call('HGET', P .. 'sequences', name) or 0)
  numbers[name] = last + 1
  return last + 1
end

-- How many finished runs are kept, by state.
local counts = {}
local function count_ended(state, change)
  counts[state] = (counts[state] or 0) + change
end

-- How many runs of a schedule are open: by job and trigger.
local opened = {}
local function count_open(field, change)
  opened[field] = (opened[field] or 0) + change
end

local function filter(list, wanted)
  local found = {}
  for _, one in ipairs(list) do
    if wanted(one) then
      found[#found + 1] = one
    end
  end
  return found
end

local function starts_with(whole, start)
  return string.find(whole, start, 1, true) == 1
end

local function is_slot(trigger)
  return starts_with(trigger, 'schedule:')
end

-- An id or a name as text. The same ids come again and again, and making text of a number is slow.
local names = {}
local function name_of(id)
  names[id] = names[id] or tostring(id)
  return names[id]
end

-- ── indexes ────────────────────────────────────────────────────────────────────────────────────────────────
-- Sorted sets and sets are written together, a command for each key instead of one for each run: before one of them is
-- read (`look`), and at the end.
local sorted, plain, is_behind = {}, {}, false

local function note(indexes, key, name, value)
  local index = indexes[key] or {}
  indexes[key] = index
  index[type(name) == 'string' and name or name_of(name)] = value
  is_behind = true
end

local function zadd(key, score, name)
  note(sorted, key, name, score)
end

local function zrem(key, name)
  note(sorted, key, name, false)
end

local function sadd(key, name)
  note(plain, key, name, true)
end

local function srem(key, name)
  note(plain, key, name, false)
end

-- In slices: `unpack` has its limit.
local function call_with(command, key, values)
  for first = 1, #values, 2000 do
    call(command, key, unpack(values, first, math.min(first + 1999, #values)))
  end
end

-- A value in `indexes` is a score, true (in a plain set), or false: remove it.
local function write_index(indexes, remove, add)
  for key, index in pairs(indexes) do
    local put, gone = {}, {}
    for name, value in pairs(index) do
      local list = value and put or gone
      if value and value ~= true then
        list[#list + 1] = value
      end
      list[#list + 1] = name
    end
    call_with(remove, key, gone)
    call_with(add, key, put)
  end
end

local function write_indexes()
  write_index(sorted, 'ZREM', 'ZADD')
  write_index(plain, 'SREM', 'SADD')
  sorted, plain, is_behind = {}, {}, false
end

-- Gates that somebody has left: if nobody waits there any more, `waited` forgets them (lib/gates.lua).
local left_gates = {}
local function forget_gates()
  for key in pairs(left_gates) do
    if call('EXISTS', P .. 'waiting:' .. key) == 0 then
      call('HDEL', P .. 'waited', key)
    end
  end
end

local function look(...)
  if is_behind then
    write_indexes()
  end
  return call(...)
end

-- ── records ────────────────────────────────────────────────────────────────────────────────────────────────
-- A record is packed, in a hash. Each is read once and written once by a script, so that all of it speaks of the same
-- one. Runs, live and over, are the many: theirs are values in a fixed order, without names, and what few of them have
-- is a table behind those. That takes half of the time of a packed table, and of the memory.
local tables = {}
local TEXTS = {keys = true} -- what is kept there is text

local function set_of_names(names)
  local made = {}
  for name in string.gmatch(names, '%S+') do
    made[name] = true
  end
  return made
end

local RUN = set_of_names([[
  id job trigger slot route level queue created state attempt due ready line lease inc reserved armed fence revision
  args
]])
local OVER = set_of_names([[
  id job trigger slot due state attempt created armed started ended queue level tries args
]])

local function rest_of(one, named)
  local rest = {}
  for name, value in pairs(one) do
    if not named[name] then
      rest[name] = value
    end
  end
  return rest
end

local function with_rest(one, rest)
  if rest then
    for name, value in pairs(rest) do
      one[name] = value
    end
  end
  return one
end

-- Whether a run has any of what few have: all that is not in RUN, or OVER.
local function is_rare_run(one)
  return one.target or one.share or one.rank or one.expires or one.failures or one.recoveries or one.reason
    or one.cancel_wanted or one.granted_at or one.granted_by or one.delayed_under or one.blocked or one.gates
    or one.tries or one.saved or one.keys or one.done or one.of or one.noted or one.noted_attempt or one.caught_up
end

local function is_rare_over(one)
  return one.target or one.reason or one.failures or one.recoveries or one.error or one.result or one.done or one.of
    or one.keys or one.settled
end

local function pack_run(one)
  return cmsgpack.pack(
    one.id, one.job, one.trigger, one.slot, one.route, one.level, one.queue, one.created, one.state, one.attempt,
    one.due, one.ready, one.line, one.lease, one.inc, one.reserved, one.armed, one.fence, one.revision, one.args,
    is_rare_run(one) and rest_of(one, RUN) or nil
  )
end

local function unpack_run(packed)
  local
    id, job, trigger, slot, route, level, queue, created, state, attempt, due, ready, line, lease, inc, reserved,
    armed, fence, revision, args, rest
    = cmsgpack.unpack(packed)
  return with_rest({
    id = id, job = job, trigger = trigger, slot = slot, route = route, level = level, queue = queue,
    created = created, state = state, attempt = attempt, due = due, ready = ready, line = line, lease = lease,
    inc = inc, reserved = reserved, armed = armed, fence = fence, revision = revision, args = args
  }, rest)
end

local function pack_over(one)
  return cmsgpack.pack(
    one.id, one.job, one.trigger, one.slot, one.due, one.state, one.attempt, one.created, one.armed, one.started,
    one.ended, one.queue, one.level, one.tries, one.args,
    is_rare_over(one) and rest_of(one, OVER) or nil
  )
end

local function unpack_over(packed)
  local
    id, job, trigger, slot, due, state, attempt, created, armed, started, ended, queue, level, tries, args, rest
    = cmsgpack.unpack(packed)
  return with_rest({
    id = id, job = job, trigger = trigger, slot = slot, due = due, state = state, attempt = attempt,
    created = created, armed = armed, started = started, ended = ended, queue = queue, level = level, tries = tries,
    args = args
  }, rest)
end

local PACK = {runs = pack_run, history = pack_over}
local UNPACK = {runs = unpack_run, history = unpack_over}

local function read_packed(name, packed)
  if not packed or TEXTS[name] then
    return packed
  end
  return (UNPACK[name] or cmsgpack.unpack)(packed)
end

local function rows_of(name)
  tables[name] = tables[name] or {known = {}, changed = {}}
  return tables[name]
end

local function find(name, field)
  field = name_of(field)
  local rows = rows_of(name)
  local known = rows.known[field]
  if known == nil then
    known = read_packed(name, call('HGET', P .. name, field))
    rows.known[field] = known
  end
  return known or nil
end

-- Read many at once, those that are not known yet.
local function fetch(name, fields)
  local rows, missing = rows_of(name), {}
  for _, field in ipairs(fields) do
    field = name_of(field)
    if rows.known[field] == nil then
      missing[#missing + 1] = field
    end
  end
  for first = 1, #missing, 1000 do
    local last = math.min(first + 999, #missing)
    local found = call('HMGET', P .. name, unpack(missing, first, last))
    for place = first, last do
      rows.known[missing[place]] = read_packed(name, found[place - first + 1])
    end
  end
end

local function keep(name, field, record)
  field = name_of(field)
  local rows = rows_of(name)
  rows.known[field] = record
  rows.changed[field] = true
end

local function forget(name, field)
  keep(name, field, false)
end

local function write_records()
  for name, rows in pairs(tables) do
    local put, gone, pack = {}, {}, PACK[name] or cmsgpack.pack
    for field in pairs(rows.changed) do
      local record = rows.known[field]
      if record then
        put[#put + 1] = field
        put[#put + 1] = TEXTS[name] and record or pack(record)
      else
        gone[#gone + 1] = field
      end
    end
    call_with('HSET', P .. name, put)
    call_with('HDEL', P .. name, gone)
  end
end

local function write_numbers()
  if ask.writes then
    take_number('write')
  end
  local last = {}
  for name, number in pairs(numbers) do
    last[#last + 1] = name
    last[#last + 1] = text(number)
  end
  call_with('HSET', P .. 'sequences', last)
  for state, change in pairs(counts) do
    call('HINCRBY', P .. 'counts', state, change)
  end
  for field, change in pairs(opened) do
    if change ~= 0 and call('HINCRBY', P .. 'open', field, change) == 0 then
      call('HDEL', P .. 'open', field)
    end
  end
end

-- The end of every script: write what has changed, tell who listens, answer.
local function answer(said)
  write_indexes()
  forget_gates()
  write_records()
  write_numbers()
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
  return {now, hints, said, numbers.write or 0}
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
