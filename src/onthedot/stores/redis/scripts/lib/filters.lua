-- Runs and jobs by what they are like: where a page begins, and what is on it.

local function set_of(list)
  if not list then
    return nil
  end
  local made = {}
  for _, one in ipairs(list) do
    made[one] = true
  end
  return made
end

-- Whether a job, and all that belongs to it, is there for who asks. Exact: it is how permissions are kept.
local namespaces_asked = set_of(ask.namespaces)
local function is_seen(job)
  return (not namespaces_asked or namespaces_asked[job.namespace] == true)
    and (not ask.owner or ask.owner == (job.owner or ''))
end

local function has_label(job)
  if not ask.label then
    return true
  end
  for _, label in ipairs(job.labels or {}) do
    if label == ask.label then
      return true
    end
  end
  return false
end

local states_asked = set_of(ask.states)
local function is_wanted(run)
  local job = job_of(run.job)
  return states_asked[run.state] and (not ask.queue or ask.queue == run.queue)
    and (not ask.job or ask.job == job.name) and (not ask.job_id or ask.job_id == run.job)
    and is_seen(job) and has_label(job) and (not ask.node or ask.node == (last_tried(run)))
end

-- Where to look for runs: among those of one job, if there is only one that they can be of; else among all.
local function index_for(of_all, of_job)
  if ask.job_id then
    return of_job .. ask.job_id
  end
  local named = {}
  if ask.job and ask.namespaces and #ask.namespaces <= 20 then
    for _, namespace in ipairs(ask.namespaces) do
      for _, job_id in ipairs(look('ZRANGE', P .. 'named:' .. namespace .. '\t' .. ask.job, 0, 1)) do
        named[#named + 1] = job_id
      end
    end
  end
  return #named == 1 and of_job .. named[1] or of_all
end

-- How many members of an index come before this place: by score, and by name among those with the same one. However many
-- those are, it is found in few looks.
local function place_of(index, score, name)
  local low = look('ZCOUNT', index, '-inf', '(' .. text(score))
  local high = low + look('ZCOUNT', index, text(score), text(score))
  while low < high do
    local middle = math.floor((low + high) / 2)
    if look('ZRANGE', index, middle, middle)[1] < name then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- The runs behind members of an index (with their scores) that are wanted, up to the first that is `beyond`; and
-- {score, run id} of the last that was looked at if there may be more, or nothing: that was all.
-- first, last, step: the places of the members, each followed by its score; full: that there may be more behind them
local function wanted_runs(kind, page, first, last, step, beyond, full)
  local ids = {}
  for place = first, last, step do
    ids[#ids + 1] = tonumber(page[place])
  end
  fetch(kind, ids)
  local found, mark = {}, false
  for place = first, last, step do
    local score = tonumber(page[place + 1])
    if beyond(score) then
      return {found, false}
    end
    mark = {score, tonumber(page[place])}
    local run = find(kind, mark[2])
    if run and is_wanted(run) then
      found[#found + 1] = run_row(run)
      if #found == ask.limit then
        return {found, mark}
      end
    end
  end
  return {found, full and mark}
end
