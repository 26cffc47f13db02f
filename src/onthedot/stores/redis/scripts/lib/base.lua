-- The beginning of every script: request, clock, refusals, hints, indexes and records.
--
-- KEYS[1]  the prefix of every key of this store. It has a hash tag, so all keys lie in one hash slot of a cluster.
-- ARGV[1]  the request, as JSON. `me` is the sender. `writes` is set if the script may write. Only tests set `now`.
-- returns  {now, hints as kind, instant, kind, instant …, answer, write number or 0}
--
-- Numbers are doubles. Instants in microseconds are exact below 2^53, which is in the year 2255. Later ones are exact
-- to the second. `..` and tostring keep only 14 digits: use `text` to make text of an instant.
local call = redis.call
local P = KEYS[1] .. ':'
local request = cjson.decode(ARGV[1])
local now = request.now
if not now then
  local time = call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local function text(number)
  return string.format('%.0f', number)
end

-- Refuses the request. Call it before the first write: Redis does not roll a script back.
local function fail(kind, ...)
  local message = {kind}
  for place, value in ipairs({...}) do
    message[place + 1] = type(value) == 'number' and text(value) or value
  end
  error({err = 'OTD ' .. cjson.encode(message)})
end

local hint_times, hint_kinds = {}, {}
local function hint(kind, at)
  if not hint_times[kind] then
    hint_kinds[#hint_kinds + 1] = kind
  end
  hint_times[kind] = math.min(hint_times[kind] or at, at)
end

-- The next number of a sequence: "job", "run", "fence", "skip", "node", "document", "entry", "sweep" or "write". No
-- number is used twice.
local last_numbers = {}
local function next_number(name)
  local last = last_numbers[name] or tonumber(call('HGET', P .. 'sequences', name) or 0)
  last_numbers[name] = last + 1
  return last + 1
end

-- Counts the finished runs that are kept, by state.
local ended_counts = {}
local function count_ended(state, change)
  ended_counts[state] = (ended_counts[state] or 0) + change
end

-- Counts the live runs of a schedule. The field is a job id and a trigger.
local open_counts = {}
local function count_open(field, change)
  open_counts[field] = (open_counts[field] or 0) + change
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

-- An id or a name as text. It is cached, because tostring is slow and the same ids come often.
local id_texts = {}
local function name_of(id)
  id_texts[id] = id_texts[id] or tostring(id)
  return id_texts[id]
end

-- ── indexes ────────────────────────────────────────────────────────────────────────────────────────────────
-- Changes of sorted sets and sets are collected: one command writes all changes of a key. They are written before the
-- next read of an index (`read_index`), and at the end.
local sorted_changes, set_changes, has_changes = {}, {}, false

local function stage(indexes, key, name, value)
  local index = indexes[key] or {}
  indexes[key] = index
  index[type(name) == 'string' and name or name_of(name)] = value
  has_changes = true
end

local function zadd(key, score, name)
  stage(sorted_changes, key, name, score)
end

local function zrem(key, name)
  stage(sorted_changes, key, name, false)
end

local function sadd(key, name)
  stage(set_changes, key, name, true)
end

local function srem(key, name)
  stage(set_changes, key, name, false)
end

-- In slices, because `unpack` has a limit.
local function call_with(command, key, values)
  for first = 1, #values, 2000 do
    call(command, key, unpack(values, first, math.min(first + 1999, #values)))
  end
end

-- A value in `indexes` is a score, true (a member of a set without scores), or false (remove the member).
local function write_index(indexes, remove, add)
  for key, index in pairs(indexes) do
    local added, removed = {}, {}
    for name, value in pairs(index) do
      local list = value and added or removed
      if value and value ~= true then
        list[#list + 1] = value
      end
      list[#list + 1] = name
    end
    call_with(remove, key, removed)
    call_with(add, key, added)
  end
end

local function write_indexes()
  write_index(sorted_changes, 'ZREM', 'ZADD')
  write_index(set_changes, 'SREM', 'SADD')
  sorted_changes, set_changes, has_changes = {}, {}, false
end

-- Gates at which a run stopped waiting. If no run waits there now, the gate's field in `waited` is deleted
-- (lib/gates.lua).
local left_gates = {}
local function clean_waited()
  for key in pairs(left_gates) do
    if call('EXISTS', P .. 'waiting:' .. key) == 0 then
      call('HDEL', P .. 'waited', key)
    end
  end
end

local function read_index(...)
  if has_changes then
    write_indexes()
  end
  return call(...)
end

-- ── records ────────────────────────────────────────────────────────────────────────────────────────────────
-- A record is packed into a field of a hash. A script reads each record once and writes it once; in between, all its
-- functions share one Lua table. Most records are runs, live or finished. They are packed as values in a fixed order,
-- without names. A table of rare fields follows, if the run has any. That takes half the time and memory of a packed
-- table.
local caches = {}
local TEXTS = {keys = true} -- hashes whose values are plain text

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
local FINISHED = set_of_names([[
  id job trigger slot due state attempt created armed started ended queue level tries args
]])

local function rest_of(one, ordered)
  local rest = {}
  for name, value in pairs(one) do
    if not ordered[name] then
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

-- Whether a run has any rare field: one that is not in RUN or FINISHED.
local function is_rare_run(one)
  return one.target or one.share or one.rank or one.expires or one.failures or one.recoveries or one.reason
    or one.cancel_wanted or one.granted_at or one.granted_by or one.delayed_under or one.blocked or one.gates
    or one.tries or one.saved or one.keys or one.done or one.of or one.noted or one.noted_attempt or one.caught_up
end

local function is_rare_finished(one)
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

local function pack_finished(one)
  return cmsgpack.pack(
    one.id, one.job, one.trigger, one.slot, one.due, one.state, one.attempt, one.created, one.armed, one.started,
    one.ended, one.queue, one.level, one.tries, one.args,
    is_rare_finished(one) and rest_of(one, FINISHED) or nil
  )
end

local function unpack_finished(packed)
  local
    id, job, trigger, slot, due, state, attempt, created, armed, started, ended, queue, level, tries, args, rest
    = cmsgpack.unpack(packed)
  return with_rest({
    id = id, job = job, trigger = trigger, slot = slot, due = due, state = state, attempt = attempt,
    created = created, armed = armed, started = started, ended = ended, queue = queue, level = level, tries = tries,
    args = args
  }, rest)
end

local PACK = {runs = pack_run, history = pack_finished}
local UNPACK = {runs = unpack_run, history = unpack_finished}

local function read_packed(name, packed)
  if not packed or TEXTS[name] then
    return packed
  end
  return (UNPACK[name] or cmsgpack.unpack)(packed)
end

local function cache_of(name)
  caches[name] = caches[name] or {known = {}, changed = {}}
  return caches[name]
end

local function get(name, field)
  field = name_of(field)
  local cache = cache_of(name)
  local known = cache.known[field]
  if known == nil then
    known = read_packed(name, call('HGET', P .. name, field))
    cache.known[field] = known
  end
  return known or nil
end

-- Reads many records with few commands, so that `get` finds them.
local function preload(name, fields)
  local cache, missing = cache_of(name), {}
  for _, field in ipairs(fields) do
    field = name_of(field)
    if cache.known[field] == nil then
      missing[#missing + 1] = field
    end
  end
  for first = 1, #missing, 1000 do
    local last = math.min(first + 999, #missing)
    local found = call('HMGET', P .. name, unpack(missing, first, last))
    for place = first, last do
      cache.known[missing[place]] = read_packed(name, found[place - first + 1])
    end
  end
end

local function put(name, field, record)
  field = name_of(field)
  local cache = cache_of(name)
  cache.known[field] = record
  cache.changed[field] = true
end

local function delete(name, field)
  put(name, field, false)
end

local function write_records()
  for name, cache in pairs(caches) do
    local added, removed, pack = {}, {}, PACK[name] or cmsgpack.pack
    for field in pairs(cache.changed) do
      local record = cache.known[field]
      if record then
        added[#added + 1] = field
        added[#added + 1] = TEXTS[name] and record or pack(record)
      else
        removed[#removed + 1] = field
      end
    end
    call_with('HSET', P .. name, added)
    call_with('HDEL', P .. name, removed)
  end
end

local function write_numbers()
  if request.writes then
    next_number('write')
  end
  local last = {}
  for name, number in pairs(last_numbers) do
    last[#last + 1] = name
    last[#last + 1] = text(number)
  end
  call_with('HSET', P .. 'sequences', last)
  for state, change in pairs(ended_counts) do
    call('HINCRBY', P .. 'counts', state, change)
  end
  for field, change in pairs(open_counts) do
    if change ~= 0 and call('HINCRBY', P .. 'open', field, change) == 0 then
      call('HDEL', P .. 'open', field)
    end
  end
end

-- Ends the script: writes all changes, publishes the hints, and makes the answer.
local function answer(result)
  write_indexes()
  clean_waited()
  write_records()
  write_numbers()
  local hints = {}
  for place, kind in ipairs(hint_kinds) do
    hints[2 * place - 1] = kind
    hints[2 * place] = hint_times[kind]
  end
  if #hint_kinds > 0 then
    call('PUBLISH', P .. 'hints', (request.me or '') .. ' ' .. table.concat(hint_kinds, ' '))
  end
  if result == nil then
    result = false
  end
  return {now, hints, result, last_numbers.write or 0}
end

-- A record as a row, with these fields in this order.
local function row(record, fields)
  local made = {}
  for place, field in ipairs(fields) do
    local value = record[field]
    if value == nil then
      value = false -- the client reads it as None; nil would end the row
    end
    made[place] = value
  end
  return made
end
