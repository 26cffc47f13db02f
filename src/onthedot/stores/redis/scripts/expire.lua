-- Runs that were never armed and whose expiry has passed are skipped: `Store.expire`.
--
-- ARGV     limit
-- returns  what they are now
-- Uses: lines runs gates finish nodes rows

local living = {}
for _, incarnation in ipairs(look('ZRANGE', P .. 'registered', 0, -1)) do
  local node = find('nodes', incarnation)
  if lives(node) then
    living[node.id] = true
  end
end

local function why(run)
  if not is_slot(run.trigger) then
    return 'expired'
  end
  return (not run.target or living[run.target]) and 'missed' or 'node_gone'
end

local function lies(run) -- of a job that was paused, or deleted, it is not judged: the sweep comes to it
  return job_of(run.job).state == 'active'
    and (run.state == 'scheduled' or (run.state == 'reserved' and run.ready <= now))
end

local missed, offset = {}, 0
repeat
  local page = look('ZRANGEBYSCORE', P .. 'expiring', '-inf', now, 'LIMIT', offset, ask.limit)
  for _, run in ipairs(runs_behind(page)) do
    if lies(run) and #missed < ask.limit then
      missed[#missed + 1] = run
    end
  end
  offset = offset + #page
until #page < ask.limit or #missed >= ask.limit or offset >= 4 * ask.limit
local said = {}
for place, run in ipairs(missed) do
  said[place] = run_row(skip(run, why(run), now))
end
return said
