-- Deletes ranges of skipped slots, and counts them: `Store.prune_skips`.
-- ARGV     until_, limit
-- returns  how many it deleted
-- Uses: lines runs gates finish windows

local DAY = 86400000000
local deleted, offset = 0, 0

local function is_old(entry)
  local state = schedules_of(entry.job)[entry.schedule]
  return entry.recorded <= request.until_ and (not state or entry.last <= state.watermark)
end

local page
repeat
  page = read_index('ZRANGE', P .. 'skipped', offset, offset + request.limit - 1)
  for _, number in ipairs(page) do
    local entry = get('skips', number)
    if deleted < request.limit and is_old(entry) then
      remove_skip(number)
      local field = entry.job .. '\t' .. entry.schedule
      if call('HGET', P .. 'last_skips', field) == number then
        call('HDEL', P .. 'last_skips', field)
      end
      call('HINCRBY', P .. 'daily', math.floor(entry.recorded / DAY) .. '\t' .. entry.job .. '\tskipped', entry.count)
      deleted = deleted + 1
    else
      offset = offset + 1
    end
  end
until #page < request.limit or deleted >= request.limit or offset >= 4 * request.limit
return deleted
