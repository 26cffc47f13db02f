-- Counts the held runs of a paused job, page by page. A part of `Store.resume_job` with `dry_run`.
-- ARGV     job_id; mark: the end of the page before; rows: the most runs of a page
-- returns  how many runs of this page are held, and its mark, or nil if it was the last page
-- Uses: lines runs gates finish sweeps

local runs, last = page_of_job(request.job_id, request.mark, request.rows)
local held = 0
for _, run in ipairs(runs) do
  held = held + (run.state == 'scheduled' and 1 or 0)
end
return {held, last and {last[1], last[2]} or false}
