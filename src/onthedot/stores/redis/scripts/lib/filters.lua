-- Filters of the scripts that list jobs and runs: what matches, and where a page begins.

local function set_of(list)
  if not list then
    return nil
  end
  local result = {}
  for _, one in ipairs(list) do
    result[one] = true
  end
  return result
end

-- Whether the user may see a job and its runs. This must be exact, because permissions depend on it.
local wanted_namespaces = set_of(request.namespaces)
local function is_visible(job)
  return (not wanted_namespaces or wanted_namespaces[job.namespace] == true)
    and (not request.owner or request.owner == (job.owner or ''))
end

local function has_label(job)
  if not request.label then
    return true
  end
  for _, label in ipairs(job.labels or {}) do
    if label == request.label then
      return true
    end
  end
  return false
end

local wanted_states = set_of(request.states)
local function matches(run)
  local job = job_of(run.job)
  return wanted_states[run.state] and (not request.queue or request.queue == run.queue)
    and (not request.job or request.job == job.name) and (not request.job_id or request.job_id == run.job)
    and is_visible(job) and has_label(job) and (not request.node or request.node == (last_holder(run)))
end

-- The index to search: that of one job if no other job can match, else that of all runs.
local function index_for(of_all, of_job)
  if request.job_id then
    return of_job .. request.job_id
  end
  local job_ids = {}
  if request.job and request.namespaces and #request.namespaces <= 20 then
    for _, namespace in ipairs(request.namespaces) do
      for _, job_id in ipairs(read_index('ZRANGE', P .. 'named:' .. namespace .. '\t' .. request.job, 0, 1)) do
        job_ids[#job_ids + 1] = job_id
      end
    end
  end
  return #job_ids == 1 and of_job .. job_ids[1] or of_all
end

-- How many members of an index come before this score and name. Members with the same score are sorted by name, and
-- searched by halves: a few reads, however many they are.
local function place_before(index, score, name)
  local low = read_index('ZCOUNT', index, '-inf', '(' .. text(score))
  local high = low + read_index('ZCOUNT', index, text(score), text(score))
  while low < high do
    local middle = math.floor((low + high) / 2)
    if read_index('ZRANGE', index, middle, middle)[1] < name then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- The matching runs of a page, up to the first member whose score is outside of the range (`beyond`). Also {score, run
-- id} of the last run that was read if there may be more, else false.
-- page: members of an index, each followed by its score
-- first, last, step: places of the members in the page
-- full: whether the index may have more members after this page
local function matching_runs(kind, page, first, last, step, beyond, full)
  local ids = {}
  for place = first, last, step do
    ids[#ids + 1] = tonumber(page[place])
  end
  preload(kind, ids)
  local found, mark = {}, false
  for place = first, last, step do
    local score = tonumber(page[place + 1])
    if beyond(score) then
      return {found, false}
    end
    mark = {score, tonumber(page[place])}
    local run = get(kind, mark[2])
    if run and matches(run) then
      found[#found + 1] = run_row(run)
      if #found == request.limit then
        return {found, mark}
      end
    end
  end
  return {found, full and mark}
end
