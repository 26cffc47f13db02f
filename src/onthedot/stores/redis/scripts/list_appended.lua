-- What was appended, in order: `DocumentsSlice.list_appended`.
--
-- ARGV     kind, after, limit
-- returns  number, body, written_at of each
-- Uses:

local first = '(' .. text(ask.after)
local found = {}
for _, number in ipairs(look('ZRANGEBYSCORE', P .. 'entries:' .. ask.kind, first, '+inf', 'LIMIT', 0, ask.limit)) do
  local entry = find('entries', ask.kind .. ':' .. number)
  found[#found + 1] = row(entry, {'number', 'body', 'written_at'})
end
return found
