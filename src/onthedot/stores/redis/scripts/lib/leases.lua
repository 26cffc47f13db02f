-- Leases: give a run to a node, and arm it.

-- Lets an attempt start. A slot that was armed is never planned again.
local function arm(run)
  run.fence, run.armed = next_number('fence'), now
  run.state, run.attempt = 'running', run.attempt + 1
  set_expiry(run, nil)
  make_unavailable(run)
  if is_slot(run.trigger) then
    raise_armed_to(run.job .. '\t' .. run.trigger, run.slot)
  end
end

local function lease(run, lease_id, incarnation)
  if run.inc then
    srem(held_key(run.inc), run.id)
  end
  run.delayed_under = nil
  if run.rank then
    local virtual_now = tonumber(call('HGET', P .. 'virtual_time', run.queue) or 0)
    if run.rank > virtual_now then
      call('HSET', P .. 'virtual_time', run.queue, text(run.rank))
    end
  end
  run.lease, run.inc, run.reserved, run.armed, run.fence = lease_id, incarnation, now, nil, nil
  run.revision = job_of(run.job).revision
  sadd(held_key(incarnation), run.id)
  put('runs', run.id, run)
end
