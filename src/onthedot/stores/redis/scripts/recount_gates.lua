-- Forget holders that are gone, pass gates that are open although somebody waits, and give places that nobody can use to
-- others: `Store.recount_gates`. A part of the keys at a time.
--
-- ARGV     cursor, rows: how many keys at the most
-- returns  how many runs were freed; the cursor to go on with, or "0"
-- Uses: lines runs gates nodes idle_places

for _, key in ipairs(look('ZRANGEBYSCORE', P .. 'rated', '-inf', '(' .. text(now), 'LIMIT', 0, ask.rows)) do
  forget('rates', key) -- it has been idle
  zrem(P .. 'rated', key)
end
-- Nodes of an earlier version do not note places that are not in use.
local function note_idle(run, key)
  for _, gate in ipairs(run.gates or {}) do
    if gate.key == key and not gate.until_end and not gate.passed and run.state ~= 'running' then
      gate.passed = true
      sadd(P .. 'idle:' .. key, run.id)
      keep('runs', run.id, run)
    end
  end
end

local freed = 0
local page = call('HSCAN', P .. 'waited', ask.cursor, 'COUNT', ask.rows)
for place = 1, #page[2], 2 do
  local key = page[2][place]
  for _, run_id in ipairs(look('ZRANGE', P .. 'holders:' .. key, 0, -1)) do
    local run = find('runs', run_id)
    if run then
      note_idle(run, key)
    else
      zrem(P .. 'holders:' .. key, run_id)
    end
  end
  freed = freed + pass_on(key)
  take_back(key, false)
end
return {freed, page[1]}
