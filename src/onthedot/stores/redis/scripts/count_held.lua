-- How many runs of a paused job are held, page by page: a part of `Store.resume`, without writing.
--
-- ARGV     job_id; mark: where to go on; rows: how many at the most
-- returns  how many there are among them, and where to go on, or nothing: that was all
-- Uses: lines runs gates finish sweeps

local runs, last = page_of_job(ask.job_id, ask.mark, ask.rows)
local held = 0
for _, run in ipairs(runs) do
  held = held + (run.state == 'scheduled' and 1 or 0)
end
return {held, last and {last[1], last[2]} or false}
