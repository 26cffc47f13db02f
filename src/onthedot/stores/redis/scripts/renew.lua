-- Extends a term: `Store.renew`.
-- ARGV     term, ttl
-- returns  the term, or nil
-- Uses: nodes

if not is_current(request.term) then
  return
end
local term = get('terms', request.term.shard)
term.until_, term.ttl = now + request.ttl, math.max(request.ttl, term.ttl)
put('terms', term.shard, term)
return term_row(term)
