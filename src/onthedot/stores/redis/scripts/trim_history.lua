-- Forget the oldest finished runs beyond as many as are kept.
--
-- ARGV     most: how many are kept; rows: how many go at once
-- returns  how many went
-- Uses: lines runs retention

return trim_history(ask.most, ask.rows)
