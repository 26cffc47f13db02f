-- Lists the entries of an append-only list, in order: `Documents.list_appended`.
-- ARGV     kind, after, limit
-- returns  number, body, written_at of each
-- Uses:

local first = '(' .. text(request.after)
local found = {}
for _, number in ipairs(
  read_index('ZRANGEBYSCORE', P .. 'entries:' .. request.kind, first, '+inf', 'LIMIT', 0, request.limit)
) do
  local entry = get('entries', request.kind .. ':' .. number)
  found[#found + 1] = row(entry, {'number', 'body', 'written_at'})
end
return found
