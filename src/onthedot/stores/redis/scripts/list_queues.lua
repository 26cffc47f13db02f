-- The queues that have settings. A part of `Queries.list_queues`.
-- returns  queues
-- Uses: lines nodes queues

local found = {}
for _, name in ipairs(call('HKEYS', P .. 'queues')) do
  found[#found + 1] = queue_row(name, queue_of(name))
end
return found
