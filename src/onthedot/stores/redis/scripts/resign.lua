-- Ends a term now: `Store.resign`.
-- ARGV     term
-- returns  1, or 0 if it was not current
-- Uses: nodes

if not is_current(request.term) then
  return 0
end
local term = get('terms', request.term.shard)
term.until_ = now
put('terms', term.shard, term)
hint('terms', now)
return 1
