-- Remove a document if it is at this version: `DocumentsSlice.delete_document`.
--
-- ARGV     kind, id, version
-- returns  1: there is none now; 0: it is at another version
-- Uses:

local name = ask.kind .. ':' .. ask.id
local found = find('documents', name)
if found and found.version ~= ask.version then
  return 0
end
if found then
  forget('documents', name)
  zrem(P .. 'documents:' .. ask.kind, ask.id)
end
return 1
