-- Forget ranges of skipped slots, and count them: `Store.prune_skips`.
--
-- ARGV     until_, limit
-- returns  how many went
-- Uses: lines runs gates finish windows

local DAY = 86400000000
local gone, offset = 0, 0

local function is_old(entry)
  local state = schedules_of(entry.job)[entry.schedule]
  return entry.recorded <= ask.until_ and (not state or entry.last <= state.watermark)
end

local page
repeat
  page = look('ZRANGE', P .. 'skipped', offset, offset + ask.limit - 1)
  for _, number in ipairs(page) do
    local entry = find('skips', number)
    if gone < ask.limit and is_old(entry) then
      remove_skip(number)
      local field = entry.job .. '\t' .. entry.schedule
      if call('HGET', P .. 'last_skips', field) == number then
        call('HDEL', P .. 'last_skips', field)
      end
      call('HINCRBY', P .. 'daily', math.floor(entry.recorded / DAY) .. '\t' .. entry.job .. '\tskipped', entry.count)
      gone = gone + 1
    else
      offset = offset + 1
    end
  end
until #page < ask.limit or gone >= ask.limit or offset >= 4 * ask.limit
return gone
