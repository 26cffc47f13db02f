-- How many shards there are: `ShardsSlice.layout`.
--
-- returns  version, shards
-- Uses: nodes

return {layout()}
