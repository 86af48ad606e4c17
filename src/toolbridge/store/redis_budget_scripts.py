"""Lua scripts of the budgets on a Redis server.

`used` is a hash: for each limit (`tokens day`) the start and the end of its window, and its use.
`held` is a hash: for each reservation its tokens and dollars, the least of both, and the end of its
lease. Redis cuts the fraction of numbers that a script returns, so that times are returned as text.
"""

from toolbridge.store.redis_scripts import lua

# KEYS: used, held. `read_limits` reads the limits that begin at an argument.
_COUNTERS = """
local now = tonumber(ARGV[1])
local days70, day = 6048000000, 86400000
local function whole(n) return string.format('%.0f', n) end
local function exact(n) return string.format('%.17g', n) end
local function read_limits(at)
  local limits = {}
  for n = 1, tonumber(ARGV[at]) do
    local i = at + (n - 1) * 5
    limits[n] = {what = ARGV[i + 1], per = ARGV[i + 2], begins = tonumber(ARGV[i + 3]),
      length = tonumber(ARGV[i + 4]), amount = tonumber(ARGV[i + 5])}
  end
  return limits
end
local function current(limit)
  local found = redis.call('HGET', KEYS[1], limit.what .. ' ' .. limit.per)
  if not found then return limit.begins, limit.begins + limit.length, 0 end
  local start, ends, used = string.match(found, '^(%S+) (%S+) (%S+)$')
  start, ends, used = tonumber(start), tonumber(ends), tonumber(used)
  if now < start then return now, now + limit.length, used end
  if now < ends then return start, ends, used end
  local next = math.max(limit.begins, ends)
  return next, next + limit.length, 0
end
local function charge(limits, amounts)
  for _, limit in ipairs(limits) do
    local amount = amounts[limit.what] or 0
    if amount ~= 0 then
      local start, ends, used = current(limit)
      redis.call('HSET', KEYS[1], limit.what .. ' ' .. limit.per,
        exact(start) .. ' ' .. exact(ends) .. ' ' .. whole(math.max(0, used + amount)))
      redis.call('PEXPIRE', KEYS[1], days70)
    end
  end
end
"""
# ARGV: now, lease, id (empty to read only), concurrency, requests, tokens, dollars, least tokens,
# least dollars, limits.
RESERVE = lua(
    _COUNTERS
    + """
local lease, id, limits = tonumber(ARGV[2]), ARGV[3], read_limits(10)
local running, held = 0, {tokens = 0, dollars = 0}
local rows = redis.call('HGETALL', KEYS[2])
for at = 1, #rows, 2 do
  local tokens, dollars, least_tokens, least_dollars, ends =
    string.match(rows[at + 1], '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
  ends = tonumber(ends)
  if ends > now + lease then
    -- After a jump of the clock back, a lease ends no later than if it had begun now.
    ends = now + lease
    redis.call('HSET', KEYS[2], rows[at], table.concat(
      {tokens, dollars, least_tokens, least_dollars, exact(ends)}, ' '))
  end
  if ends <= now then
    redis.call('HDEL', KEYS[2], rows[at])
    charge(limits, {tokens = tonumber(least_tokens), dollars = tonumber(least_dollars)})
  else
    running = running + 1
    held.tokens = held.tokens + tonumber(tokens)
    held.dollars = held.dollars + tonumber(dollars)
  end
end
local wanted = {requests = tonumber(ARGV[5]), tokens = tonumber(ARGV[6]), dollars = tonumber(ARGV[7])}
local most = tonumber(ARGV[4])
local admitted = id ~= '' and (most == 0 or running < most)
local found = {0, running}
for n, limit in ipairs(limits) do
  local _, ends, used = current(limit)
  local reserved = held[limit.what] or 0
  local asked = wanted[limit.what]
  if asked > 0 and asked + used + reserved > limit.amount then admitted = false end
  found[n + 2] = {whole(used), whole(reserved), exact(ends)}
end
if admitted then
  found[1] = 1
  redis.call('HSET', KEYS[2], id, table.concat(
    {ARGV[6], ARGV[7], ARGV[8], ARGV[9], exact(now + lease)}, ' '))
  redis.call('PEXPIRE', KEYS[2], day)
  charge(limits, {requests = wanted.requests})
end
return found
"""
)
# ARGV: now, id, tokens, dollars, the same less the least, limits; "if held" charges nothing after
# the lease, or if the reservation was never made.
SETTLE = lua(
    _COUNTERS
    + """
local limits = read_limits(7)
if redis.call('HDEL', KEYS[2], ARGV[2]) == 1 then
  charge(limits, {tokens = tonumber(ARGV[3]), dollars = tonumber(ARGV[4])})
elseif ARGV[#ARGV] == '' then
  charge(limits, {tokens = tonumber(ARGV[5]), dollars = tonumber(ARGV[6])})
end
return 1
"""
)
# ARGV: the new end of the leases, then ids.
RENEW = lua("""
for at = 2, #ARGV do
  local row = redis.call('HGET', KEYS[2], ARGV[at])
  if row then
    redis.call('HSET', KEYS[2], ARGV[at], string.match(row, '^%S+ %S+ %S+ %S+ ') .. ARGV[1])
    redis.call('PEXPIRE', KEYS[2], 86400000)
  end
end
return 1
""")
