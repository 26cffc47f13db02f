-- Forget holders that are gone, and pass gates that are open although somebody waits: `UpkeepSlice.recount_gates`.
-- A part of the keys at a time.
--
-- ARGV     cursor, rows: how many keys at the most
-- returns  how many runs were freed; the cursor to go on with, or "0"
-- Uses: lines runs gates

for _, key in ipairs(look('ZRANGEBYSCORE', P .. 'rated', '-inf', '(' .. text(now), 'LIMIT', 0, ask.rows)) do
  forget('rates', key) -- it has been idle
  zrem(P .. 'rated', key)
end
local freed = 0
local page = call('HSCAN', P .. 'waited', ask.cursor, 'COUNT', ask.rows)
for place = 1, #page[2], 2 do
  local key = page[2][place]
  for _, run_id in ipairs(look('ZRANGE', P .. 'holders:' .. key, 0, -1)) do
    if not find('runs', run_id) then
      zrem(P .. 'holders:' .. key, run_id)
    end
  end
  freed = freed + pass_on(key)
end
return {freed, page[1]}
