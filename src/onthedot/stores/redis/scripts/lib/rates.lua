-- Rates: the first instant at which a run may start, as in model/rate.py.
--
-- Products that could exceed 2^53 are computed in two parts: an instant is whole + part/most microseconds.

local LAST = 253000000000000000
local SECOND = 1000000

local function round_up(number, parts)
  return math.ceil(number / parts)
end

-- How long after its granted instant a run may still start.
local function grace(gate)
  return math.max(SECOND, round_up(gate.per, gate.most))
end

-- Carries over, so that 0 <= part < most.
local function normalize(whole, part, most)
  local carry = math.floor(part / most)
  return whole + carry, part - carry * most
end

-- The instant at which the run may start, and the new tat (theoretical arrival time; nil: it does not change).
local function next_start(gate, tat, start, granted_at)
  if granted_at and start <= granted_at + grace(gate) then
    return math.max(start, granted_at), nil
  end
  local whole, part = 0, 0 -- the tat, less `start`
  if tat then
    whole, part = normalize(tat.whole - start, round_up(tat.part * gate.most, tat.parts), gate.most)
    if whole < 0 then
      whole, part = 0, 0
    end
  end
  local step_whole = math.floor(gate.per / gate.most)
  local step_part = gate.per - step_whole * gate.most
  local back = gate.burst - 1 -- how many steps before its tat a run may start
  local wait_whole, wait_part = normalize(whole - back * step_whole, part - back * step_part, gate.most)
  local wait = math.max(0, wait_whole + (wait_part > 0 and 1 or 0))
  local new_whole, new_part = normalize(whole + step_whole, part + step_part, gate.most)
  return math.min(start + wait, LAST), {whole = math.min(start + new_whole, LAST), part = new_part, parts = gate.most}
end

-- An instant in ISO 8601: 2026-01-01T00:00:00+00:00, with a fraction if it has one.
local function iso(instant)
  local seconds = math.floor(instant / SECOND)
  local fraction, days = instant - seconds * SECOND, math.floor(seconds / 86400)
  local clock = seconds - days * 86400
  local shifted = days + 719468 -- days since 0000-03-01, so that a leap day is the last of its year
  local era = math.floor(shifted / 146097)
  local of_era = shifted - era * 146097
  local year = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524)
    - math.floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * of_year + 2) / 153)
  local day = of_year - math.floor((153 * month + 2) / 5) + 1
  month = month < 10 and month + 3 or month - 9
  year = year + era * 400 + (month <= 2 and 1 or 0)
  local made = string.format('%04d-%02d-%02dT%02d:%02d:%02d', year, month, day, math.floor(clock / 3600),
    math.floor(clock / 60) % 60, clock % 60)
  return made .. (fraction > 0 and string.format('.%06d', fraction) or '') .. '+00:00'
end
