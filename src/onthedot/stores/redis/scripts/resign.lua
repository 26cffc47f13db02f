-- End a term now: `Store.resign`.
--
-- ARGV     term
-- returns  1, or 0 if it was not current
-- Uses: nodes

if not is_current(ask.term) then
  return 0
end
local term = find('terms', ask.term.shard)
term.until_ = now
keep('terms', term.shard, term)
hint('terms', now)
return 1
