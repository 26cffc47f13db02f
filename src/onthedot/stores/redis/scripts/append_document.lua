-- Add a text to the end of a list that only grows: `DocumentsSlice.append_document`.
--
-- ARGV     kind, body; key, if there is one
-- returns  its number
-- Uses:

local known = ask.key and find('entry_keys', ask.kind .. ':' .. ask.key)
if known then
  return known.number
end
local number = take_number('entry')
keep('entries', ask.kind .. ':' .. text(number), {number = number, body = ask.body, written_at = now})
zadd(P .. 'entries:' .. ask.kind, number, text(number))
if ask.key then
  keep('entry_keys', ask.kind .. ':' .. ask.key, {number = number})
end
return number
