-- The newest term of each shard of the layout: `Queries.list_terms`.
-- returns  terms, by shard
-- Uses: nodes

local _, shards = layout()
local found = {}
for shard = 0, shards - 1 do
  local term = get('terms', shard)
  if term then
    found[#found + 1] = term_row(term)
  end
end
return found
