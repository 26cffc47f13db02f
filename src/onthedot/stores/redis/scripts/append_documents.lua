-- Add texts to the end of a list that only grows: `DocumentsSlice.append_documents`.
--
-- ARGV     kind; entries: body; key, if there is one
-- returns  their numbers
-- Uses:

local function append(entry)
  local known = entry.key and find('entry_keys', ask.kind .. ':' .. entry.key)
  if known then
    return known.number
  end
  local number = take_number('entry')
  keep('entries', ask.kind .. ':' .. text(number), {number = number, body = entry.body, written_at = now})
  zadd(P .. 'entries:' .. ask.kind, number, text(number))
  if entry.key then
    keep('entry_keys', ask.kind .. ':' .. entry.key, {number = number})
  end
  return number
end

local numbers = {}
for place, entry in ipairs(ask.entries) do
  numbers[place] = append(entry)
end
return numbers
