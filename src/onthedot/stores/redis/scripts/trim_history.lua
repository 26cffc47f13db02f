-- Deletes the oldest finished runs if there are too many. A part of `Store.recount_gates`.
-- ARGV     most: how many are kept; rows: the most runs that this script deletes
-- returns  how many it deleted
-- Uses: lines runs retention

return trim_history(request.most, request.rows)
