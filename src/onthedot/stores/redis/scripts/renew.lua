-- Extend a term: `Store.renew`.
--
-- ARGV     term, ttl
-- returns  the term, or nothing
-- Uses: nodes

if not is_current(ask.term) then
  return
end
local term = find('terms', ask.term.shard)
term.until_, term.ttl = now + ask.ttl, math.max(ask.ttl, term.ttl)
keep('terms', term.shard, term)
return term_row(term)
