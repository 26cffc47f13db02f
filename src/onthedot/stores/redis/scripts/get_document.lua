-- One document: `DocumentsSlice.get_document`.
--
-- ARGV     kind, id
-- returns  version, body, written_at; or nothing
-- Uses:

local found = find('documents', ask.kind .. ':' .. ask.id)
return found and row(found, {'version', 'body', 'written_at'})
