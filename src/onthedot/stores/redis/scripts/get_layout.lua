-- The number of shards: `Queries.get_layout`.
-- returns  version, shards
-- Uses: nodes

return {layout()}
