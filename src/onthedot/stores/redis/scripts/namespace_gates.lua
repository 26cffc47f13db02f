-- Migrates a store of an earlier version: puts the namespace into the keys of named limits and rates, page by page.
-- Keys of the default namespace do not change (rules/gates.py). Runs that hold a gate, wait at one or were granted an
-- instant get the new keys.
--
-- ARGV     what: "rates" or "runs", or nil to ask whether the migration is done
--          cursor; rows: the most records of a page; names: {namespace, name} of the rates
-- returns  the cursor of the next page; "0" after the last page, and if the migration is done
-- Uses: lines runs gates

local LIMIT, RATE = 'limit:name:', 'rate:name:'

if call('HGET', P .. 'epoch', 'gates') then
  return '0'
end
if not request.what then
  if call('EXISTS', P .. 'jobs') == 1 then
    return 'open'
  end
  call('HSET', P .. 'epoch', 'gates', 'of namespaces') -- a new store
  return '0'
end

local function key_in(namespace, key)
  local kind, rest = string.match(key, '^(%a+)(:.*)$')
  return kind .. ':in:' .. namespace .. rest
end

local function copy_rate(key)
  for _, named in ipairs(request.names) do
    local made = key_in(named[1], key)
    if starts_with(key, RATE .. named[2] .. ':') and not get('rates', made) then
      local tat = get('rates', key)
      put('rates', made, tat)
      zadd(P .. 'rated', tat.whole, made)
    end
  end
end

local function rename(run, namespace)
  for _, gate in ipairs(run.gates or {}) do
    if starts_with(gate.key, LIMIT) then
      local passed = gate.passed
      remove_holder(run, gate)
      gate.key, gate.passed = key_in(namespace, gate.key), passed
      zadd(P .. 'holders:' .. gate.key, run.id, run.id)
      if passed then
        sadd(P .. 'idle:' .. gate.key, run.id)
      end
    end
  end
  local gate = run.blocked
  if gate and starts_with(gate.key, LIMIT) then
    unblock(run)
    gate.key = key_in(namespace, gate.key)
    block(run, gate)
  end
  local by = run.granted_by
  if by and starts_with(by, RATE) then
    run.granted_by = key_in(namespace, by)
    if run.reason and starts_with(run.reason, 'waits at ' .. by) then
      run.reason = 'waits at ' .. run.granted_by .. string.sub(run.reason, #'waits at ' + #by + 1)
    end
  end
  put('runs', run.id, run)
end

local page = call('HSCAN', P .. request.what, request.cursor, 'COUNT', request.rows)
for place = 1, #page[2], 2 do
  local field, packed = page[2][place], page[2][place + 1]
  if request.what == 'rates' then
    if starts_with(field, RATE) then
      copy_rate(field)
    end
  elseif string.find(packed, LIMIT, 1, true) or string.find(packed, RATE, 1, true) then
    local run = get('runs', field)
    local job = run and job_of(run.job)
    if job and job.namespace ~= 'default' then
      rename(run, job.namespace)
    end
  end
end
if request.what == 'runs' and page[1] == '0' then
  call('HSET', P .. 'epoch', 'gates', 'of namespaces')
end
return page[1]
