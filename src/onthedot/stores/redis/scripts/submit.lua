-- Inserts runs: `Store.submit`.
-- ARGV     runs: job_id, revision, trigger, slot, due, expires, args, key, share, share_by (see `check_share`)
--          only_check: check whether the runs would be refused, and write nothing
--          noting: kind, entries, mark. The run's id replaces the mark in its entry. Without a mark the entries are
--          about all runs, and are not changed.
-- returns  the ids of the runs
-- Uses: lines runs entries

local first
local keys = {}
for place, run in ipairs(request.runs) do
  keys[place] = key_of(run.job_id, run.trigger, run.slot)
end
preload('keys', keys)
for _, run in ipairs(request.runs) do
  local job = job_of(run.job_id)
  if not job or job.state == 'deleted' then
    fail('UnknownJob', 'job ' .. run.job_id .. ' does not exist; define it before you submit runs of it')
  end
  if run.revision and run.revision ~= job.revision then
    fail('RevisionConflict', 'job ' .. job.id .. ': expected revision ' .. run.revision .. ', found ' .. job.revision
      .. '; read it again')
  end
  check_share(job, run)
end
local asked_before = {}
for place, run in ipairs(request.runs) do
  if run.key then
    local field = run.job_id .. '\t' .. run.key
    local known = call('HGET', P .. 'submit_keys', field)
    if known then
      known = cmsgpack.unpack(known)
      if known.args ~= run.args then
        fail('KeyConflict', 'used before by run ' .. known.run_id .. ', with other arguments', run.key)
      end
      asked_before[place] = known.run_id
    end
  end
end
if request.only_check then
  return
end

local ids = {}
for place, run in ipairs(request.runs) do
  local field = run.key and run.job_id .. '\t' .. run.key
  local again = field and not asked_before[place] and call('HGET', P .. 'submit_keys', field)
  if again then -- the call has this key twice
    asked_before[place] = cmsgpack.unpack(again).run_id
  end
  if asked_before[place] then
    ids[place] = asked_before[place]
  else
    ids[place] = insert(job_of(run.job_id), run, now)
    if field then
      call('HSET', P .. 'submit_keys', field, cmsgpack.pack({run_id = ids[place], args = run.args}))
      local made = get('runs', ids[place]) or get('history', ids[place])
      made.keys = made.keys or {}
      made.keys[#made.keys + 1] = run.key
      put(get('runs', ids[place]) and 'runs' or 'history', ids[place], made)
    end
  end
  first = math.min(first or run.due, run.due)
end
if first then
  hint('runs', first)
end
if request.noting then
  for place, entry in ipairs(request.noting.entries) do
    if request.noting.mark then
      entry.body = string.gsub(entry.body, request.noting.mark, text(ids[place]))
    end
    append(request.noting.kind, entry)
  end
end
return ids
