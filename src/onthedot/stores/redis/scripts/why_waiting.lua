-- What a live run waits for: `Queries.why_waiting`.
-- ARGV     run_id
-- returns  expires, node, incarnation, reserved, fence, gate, holders, granted at, route, cancel wanted
-- Uses: lines runs

local run = get('runs', request.run_id)
if not run then
  return
end
local holders = run.blocked and ids_of(read_index('ZRANGE', P .. 'holders:' .. run.blocked.key, 0, -1)) or {}
return {
  run.expires or false, run.inc and get('nodes', run.inc).id or '', run.inc or '',
  run.reserved or false, run.fence or 0, run.blocked and run.blocked.key or '', holders, run.granted_at or false,
  run.route, run.cancel_wanted or false,
}
