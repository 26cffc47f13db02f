-- Forget holders that are gone, and pass gates that are open although somebody waits: `UpkeepSlice.recount_gates`.
--
-- returns  how many runs were freed
-- Uses: lines runs gates

for _, key in ipairs(look('ZRANGEBYSCORE', P .. 'rated', '-inf', '(' .. text(now))) do
  forget('rates', key) -- it has been idle
  zrem(P .. 'rated', key)
end
local freed = 0
for _, key in ipairs(call('HKEYS', P .. 'waited')) do
  for _, run_id in ipairs(look('ZRANGE', P .. 'holders:' .. key, 0, -1)) do
    if not find('runs', run_id) then
      zrem(P .. 'holders:' .. key, run_id)
    end
  end
  freed = freed + pass_on(key)
end
return freed
