-- Documents of a kind, by id: `Documents.list_documents`.
-- ARGV     kind, after, limit
-- returns  id, version, body, written_at of each
-- Uses:

local first = request.after == '' and '-' or '(' .. request.after
local found = {}
for _, id in ipairs(
  read_index('ZRANGEBYLEX', P .. 'documents:' .. request.kind, first, '+', 'LIMIT', 0, request.limit)
) do
  local document = get('documents', request.kind .. ':' .. id)
  found[#found + 1] = row(document, {'id', 'version', 'body', 'written_at'})
end
return found
