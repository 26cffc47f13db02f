-- Documents of a kind, by id: `DocumentsSlice.list_documents`.
--
-- ARGV     kind, after, limit
-- returns  id, version, body, written_at of each
-- Uses:

local first = ask.after == '' and '-' or '(' .. ask.after
local found = {}
for _, id in ipairs(look('ZRANGEBYLEX', P .. 'documents:' .. ask.kind, first, '+', 'LIMIT', 0, ask.limit)) do
  local document = find('documents', ask.kind .. ':' .. id)
  found[#found + 1] = row(document, {'id', 'version', 'body', 'written_at'})
end
return found
