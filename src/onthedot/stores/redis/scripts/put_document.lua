-- Store a text if the document is at this version: `DocumentsSlice.put_document`.
--
-- ARGV     kind, id, body, version
-- returns  1 or 0, the version that is there now
-- Uses:

local name = ask.kind .. ':' .. ask.id
local found = find('documents', name)
local current = found and found.version or 0
if found and found.body == ask.body then
  return {1, current}
end
if current ~= ask.version then
  return {0, current}
end
local version = take_number('document')
keep('documents', name, {id = ask.id, version = version, body = ask.body, written_at = now})
zadd(P .. 'documents:' .. ask.kind, 0, ask.id)
return {1, version}
