-- Entries of append-only lists.

-- Appends a text to a list and returns its number. An entry with a key that exists already is not appended again.
local function append(kind, entry)
  local known = entry.key and get('entry_keys', kind .. ':' .. entry.key)
  if known then
    return known.number
  end
  local number = next_number('entry')
  put('entries', kind .. ':' .. text(number), {number = number, body = entry.body, written_at = now})
  zadd(P .. 'entries:' .. kind, number, text(number))
  if entry.key then
    put('entry_keys', kind .. ':' .. entry.key, {number = number})
  end
  return number
end
