-- Add to each count if all are below their limits, else to none.
--
-- ARGV has for each key: the seconds of a step, the number of steps, the limit, whether to add, and
-- how many rows the window may have, or 0. The reply is whether all were below their limits, the
-- microseconds left, and the counts. A key of a window with few rows is also in the set of its keys.

local time = redis.call('TIME')
local moment = time[1] + time[2] / 1000000
local rows, full = {}, nil
for number, key in ipairs(KEYS) do
  local row = {key = key, counts = {}, total = 0, stored = {}}
  for place, name in ipairs({'seconds', 'steps', 'most', 'adds', 'max_rows'}) do
    row[name] = tonumber(ARGV[number * 5 - 5 + place])
  end
  row.step = math.floor(moment / row.seconds)
  for place = 1, row.steps do row.counts[place] = 0 end
  local passed, place = nil, 0
  for text in string.gmatch(redis.call('GET', key) or '', '%d+') do
    local age = math.max(1, (passed or 0) + place)
    if not passed then
      passed = row.step - text
      row.is_ahead = passed < 0
    elseif age <= row.steps then
      row.counts[age], row.total = row.counts[age] + text, row.total + text
    end
    place = place + 1
  end
  if not full and row.total >= row.most then full = row end
  rows[number] = row
end
local first = full or rows[1]
local left = (first.step + 1) * first.seconds - moment
local reply = {full and 0 or 1, math.ceil(left * 1000000)}
for number, row in ipairs(rows) do
  local added = not full and row.adds or 0
  row.counts[1], reply[number + 2] = row.counts[1] + added, row.total + added
  if added > 0 or row.is_ahead then
    local left = (row.step + row.steps) * row.seconds - moment
    local text = row.step .. ' ' .. table.concat(row.counts, ' ')
    redis.call('SET', row.key, text, 'PX', math.ceil(left * 1000))
  end
  if added > 0 and row.max_rows > 0 then
    local keys = string.match(row.key, '^(.*):')
    redis.call('ZADD', keys, moment, row.key)
    redis.call('EXPIRE', keys, row.seconds * row.steps)
    if redis.call('ZCARD', keys) > row.max_rows then
      redis.call('DEL', redis.call('ZPOPMIN', keys)[1])
    end
  end
end
return reply
