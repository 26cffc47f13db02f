-- Insert runs: `Store.submit`.
--
-- ARGV     runs: job_id, revision, trigger, slot, due, expires, args, key; share and share_by, whose run it is by which
--          argument; only_check: see whether they would be refused, and write nothing; noting: kind, entries and mark,
--          which stands for the run's id in them; without a mark they are about all runs, and stay as they are
-- returns  their ids
-- Uses: lines runs entries

local first
local keys = {}
for place, run in ipairs(ask.runs) do
  keys[place] = key_of(run.job_id, run.trigger, run.slot)
end
fetch('keys', keys)
for _, run in ipairs(ask.runs) do
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
for place, run in ipairs(ask.runs) do
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
if ask.only_check then
  return
end

local ids = {}
for place, run in ipairs(ask.runs) do
  local field = run.key and run.job_id .. '\t' .. run.key
  local again = field and not asked_before[place] and call('HGET', P .. 'submit_keys', field)
  if again then -- twice in one call
    asked_before[place] = cmsgpack.unpack(again).run_id
  end
  if asked_before[place] then
    ids[place] = asked_before[place]
  else
    ids[place] = insert(job_of(run.job_id), run, now)
    if field then
      call('HSET', P .. 'submit_keys', field, cmsgpack.pack({run_id = ids[place], args = run.args}))
      local made = find('runs', ids[place]) or find('history', ids[place])
      made.keys = made.keys or {}
      made.keys[#made.keys + 1] = run.key
      keep(find('runs', ids[place]) and 'runs' or 'history', ids[place], made)
    end
  end
  first = math.min(first or run.due, run.due)
end
if first then
  hint('runs', first)
end
if ask.noting then
  for place, entry in ipairs(ask.noting.entries) do
    if ask.noting.mark then
      entry.body = string.gsub(entry.body, ask.noting.mark, text(ids[place]))
    end
    append(ask.noting.kind, entry)
  end
end
return ids
