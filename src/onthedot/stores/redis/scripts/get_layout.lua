-- How many shards there are: `Store.layout`.
--
-- returns  version, shards
-- Uses: nodes

return {layout()}
