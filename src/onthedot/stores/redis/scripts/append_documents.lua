-- Add texts to the end of a list that only grows: `DocumentsSlice.append_documents`.
--
-- ARGV     kind; entries: body; key, if there is one
-- returns  their numbers
-- Uses: entries

local numbers = {}
for place, entry in ipairs(ask.entries) do
  numbers[place] = append(ask.kind, entry)
end
return numbers
