-- Lists that only grow.

-- Add a text to the end of a list, once for its key if it has one; its number.
local function append(kind, entry)
  local known = entry.key and find('entry_keys', kind .. ':' .. entry.key)
  if known then
    return known.number
  end
  local number = take_number('entry')
  keep('entries', kind .. ':' .. text(number), {number = number, body = entry.body, written_at = now})
  zadd(P .. 'entries:' .. kind, number, text(number))
  if entry.key then
    keep('entry_keys', kind .. ':' .. entry.key, {number = number})
  end
  return number
end
