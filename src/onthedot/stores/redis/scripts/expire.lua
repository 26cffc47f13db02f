-- Skips runs that were never armed and whose expiry has passed: `Store.expire`.
-- ARGV     limit
-- returns  these runs as they are now
-- Uses: lines runs gates finish nodes rows

local living = {}
for _, incarnation in ipairs(read_index('ZRANGE', P .. 'registered', 0, -1)) do
  local node = get('nodes', incarnation)
  if is_alive(node) then
    living[node.id] = true
  end
end

local function why(run)
  if not is_slot(run.trigger) then
    return 'expired'
  end
  return (not run.target or living[run.target]) and 'missed' or 'node_gone'
end

local function is_expired(run) -- a sweep handles the runs of a paused or deleted job
  return job_of(run.job).state == 'active'
    and (run.state == 'scheduled' or (run.state == 'reserved' and run.ready <= now))
end

local missed, offset = {}, 0
repeat
  local page = read_index('ZRANGEBYSCORE', P .. 'expiring', '-inf', now, 'LIMIT', offset, request.limit)
  for _, run in ipairs(load_runs(page)) do
    if is_expired(run) and #missed < request.limit then
      missed[#missed + 1] = run
    end
  end
  offset = offset + #page
until #page < request.limit or #missed >= request.limit or offset >= 4 * request.limit
local rows = {}
for place, run in ipairs(missed) do
  rows[place] = run_row(skip(run, why(run), now))
end
return rows
