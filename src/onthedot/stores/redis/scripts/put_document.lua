-- Stores a text if the document has this version: `Documents.put_document`.
-- ARGV     kind, id, body, version
-- returns  1 or 0, the document's version now
-- Uses:

local name = request.kind .. ':' .. request.id
local found = get('documents', name)
local current = found and found.version or 0
if found and found.body == request.body then
  return {1, current}
end
if current ~= request.version then
  return {0, current}
end
local version = next_number('document')
put('documents', name, {id = request.id, version = version, body = request.body, written_at = now})
zadd(P .. 'documents:' .. request.kind, 0, request.id)
return {1, version}
