-- Repairs gates, page by page: `Store.recount_gates`.
-- Removes holders whose runs do not exist, passes on open gates at which runs wait, and gives places that no worker can
-- use to other runs.
--
-- ARGV     cursor; rows: the most keys of a page
-- returns  how many runs were freed; the cursor of the next page, or "0"
-- Uses: lines runs gates nodes idle_places

for _, key in ipairs(read_index('ZRANGEBYSCORE', P .. 'rated', '-inf', '(' .. text(now), 'LIMIT', 0, request.rows)) do
  delete('rates', key) -- its time has passed
  zrem(P .. 'rated', key)
end
-- Nodes of an earlier version do not record places that are not in use.
local function mark_idle(run, key)
  for _, gate in ipairs(run.gates or {}) do
    if gate.key == key and not gate.until_end and not gate.passed and run.state ~= 'running' then
      gate.passed = true
      sadd(P .. 'idle:' .. key, run.id)
      put('runs', run.id, run)
    end
  end
end

local freed = 0
local page = call('HSCAN', P .. 'waited', request.cursor, 'COUNT', request.rows)
for place = 1, #page[2], 2 do
  local key = page[2][place]
  for _, run_id in ipairs(read_index('ZRANGE', P .. 'holders:' .. key, 0, -1)) do
    local run = get('runs', run_id)
    if run then
      mark_idle(run, key)
    else
      zrem(P .. 'holders:' .. key, run_id)
    end
  end
  freed = freed + pass_on(key)
  take_back(key, false)
end
return {freed, page[1]}
