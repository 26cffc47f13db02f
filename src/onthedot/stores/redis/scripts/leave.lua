-- Ends an incarnation's lease and its terms now: `Store.leave`.
-- ARGV     incarnation
-- Uses: lines runs

local node = get('nodes', request.incarnation)
if not node or node.ended then
  return
end
node.ended, node.lease_until, node.left_at = true, now, now
put('nodes', request.incarnation, node)
zrem(P .. 'beats', request.incarnation)
for _, run in ipairs(load_runs(read_index('SMEMBERS', P .. 'held:' .. request.incarnation))) do
  if run.state == 'reserved' then
    clear_lease(run)
    run.state = 'scheduled'
    make_available(run, run.due)
  end
end
for _, shard in ipairs(call('HKEYS', P .. 'terms')) do
  local term = get('terms', shard)
  if term.incarnation == request.incarnation and term.until_ > now then
    term.until_ = now
    put('terms', shard, term)
  end
end
hint('runs', now)
hint('terms', now)
