-- Appends texts to a list: `Documents.append_documents`.
-- ARGV     kind; entries: body, and key if the entry has one
-- returns  their numbers
-- Uses: entries

local numbers = {}
for place, entry in ipairs(request.entries) do
  numbers[place] = append(request.kind, entry)
end
return numbers
