-- End an incarnation's lease and its terms now: `Store.leave`.
--
-- ARGV     incarnation
-- Uses: lines runs

local node = find('nodes', ask.incarnation)
if not node or node.ended then
  return
end
node.ended, node.lease_until, node.left_at = true, now, now
keep('nodes', ask.incarnation, node)
zrem(P .. 'beats', ask.incarnation)
for _, run in ipairs(runs_behind(look('SMEMBERS', P .. 'held:' .. ask.incarnation))) do
  if run.state == 'reserved' then
    drop_lease(run)
    run.state = 'scheduled'
    wait(run, run.due)
  end
end
for _, shard in ipairs(call('HKEYS', P .. 'terms')) do
  local term = find('terms', shard)
  if term.incarnation == ask.incarnation and term.until_ > now then
    term.until_ = now
    keep('terms', shard, term)
  end
end
hint('runs', now)
hint('terms', now)
