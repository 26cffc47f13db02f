-- One document: `Documents.get_document`.
-- ARGV     kind, id
-- returns  version, body, written_at; or nil
-- Uses:

local found = get('documents', request.kind .. ':' .. request.id)
return found and row(found, {'version', 'body', 'written_at'})
