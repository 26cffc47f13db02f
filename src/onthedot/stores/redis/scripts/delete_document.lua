-- Deletes a document if it has this version: `Documents.delete_document`.
-- ARGV     kind, id, version
-- returns  1 if there is no such document now, 0 if it has another version
-- Uses:

local name = request.kind .. ':' .. request.id
local found = get('documents', name)
if found and found.version ~= request.version then
  return 0
end
if found then
  delete('documents', name)
  zrem(P .. 'documents:' .. request.kind, request.id)
end
return 1
