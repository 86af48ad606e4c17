"""Lua scripts of the Redis engine: each is one atomic step on the server.

Every key of toolbridge has the hash tag `{toolbridge}`, so that all are in one slot of a cluster.
A kind of value has an index (key by expiry time) and a table of sizes, by which it is bounded: what
expires first is removed first. Redis Programming, "Lua API": numbers are converted to integers when
they are returned, so times are whole milliseconds.
"""

from hashlib import sha1
from typing import NamedTuple


class LuaScript(NamedTuple):
    """A script, and the name under which the server caches it."""

    text: str
    sha: str


def lua(text: str) -> LuaScript:
    return LuaScript(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


PREFIX = "{toolbridge}"
EPOCH = f"{PREFIX}:epoch"
"""A random value that is lost when the server loses its data."""

# KEYS: the key, the index of its kind, the sizes of its kind.
# ARGV: milliseconds, most values, most bytes, then those of the script.
_BOUNDED = """
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local function forget(key)
  local size = tonumber(redis.call('HGET', KEYS[3], key) or 0)
  redis.call('HDEL', KEYS[3], key)
  redis.call('HINCRBY', KEYS[3], '', -size)
  redis.call('ZREM', KEYS[2], key)
end
local function note(size)
  local time, ms = now(), tonumber(ARGV[1])
  local old = tonumber(redis.call('HGET', KEYS[3], KEYS[1]) or 0)
  redis.call('HSET', KEYS[3], KEYS[1], size)
  local total = redis.call('HINCRBY', KEYS[3], '', size - old)
  redis.call('ZADD', KEYS[2], string.format('%.0f', time + ms), KEYS[1])
  redis.call('PEXPIRE', KEYS[1], ms)
  for at = 2, 3 do
    if redis.call('PTTL', KEYS[at]) < ms then redis.call('PEXPIRE', KEYS[at], ms * 2) end
  end
  for _, key in ipairs(redis.call(
    'ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', time), 'LIMIT', 0, 16)) do
    forget(key)
  end
  local count = redis.call('ZCARD', KEYS[2])
  while count > tonumber(ARGV[2]) or total > tonumber(ARGV[3]) do
    local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
    if not first then break end
    redis.call('DEL', first)
    forget(first)
    count = count - 1
    total = tonumber(redis.call('HGET', KEYS[3], '') or 0)
  end
end
"""

# KEYS: the index of a kind. ARGV: the most values.
VALUES = lua("""
local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
local found = {}
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf', 'LIMIT', 0, ARGV[1])) do
  local value = redis.call('GET', key)
  if value then found[#found + 1] = value end
end
return found
""")
PUT = lua(
    _BOUNDED
    + """
redis.call('SET', KEYS[1], ARGV[4])
note(#ARGV[4])
return 1
"""
)
CLAIM = lua(
    _BOUNDED
    + """
if not redis.call('SET', KEYS[1], ARGV[4], 'NX', 'PX', ARGV[1]) then
  return {redis.call('GET', KEYS[1]), 0}
end
note(#ARGV[4])
return {ARGV[4], 1}
"""
)
REPLACE = lua(
    _BOUNDED
    + """
if redis.call('GET', KEYS[1]) ~= ARGV[4] then return 0 end
redis.call('SET', KEYS[1], ARGV[5])
note(#ARGV[5])
return 1
"""
)
# A log is a stream with one entry for each batch; its id is the number of the batch's last entry.
# ARGV: the first number, the last number, the batch. It returns the last number of the log.
APPEND = lua(
    _BOUNDED
    + """
local found = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local last = found and tonumber(string.match(found[1], '^%d+')) or 0
if tonumber(ARGV[4]) <= last then return last end
redis.call('XADD', KEYS[1], ARGV[5] .. '-0', 'b', ARGV[6])
note(#ARGV[6] + tonumber(redis.call('HGET', KEYS[3], KEYS[1]) or 0))
return tonumber(ARGV[5])
"""
)
# ARGV: the number before the first entry, and the bytes after which it returns.
READ = lua("""
local start, size, found = '(' .. ARGV[1] .. '-0', 0, {}
repeat
  local rows = redis.call('XRANGE', KEYS[1], start, '+', 'COUNT', 4)
  for _, row in ipairs(rows) do
    if size >= tonumber(ARGV[2]) then return found end
    found[#found + 1] = row[2][2]
    size, start = size + #row[2][2], '(' .. row[1]
  end
until #rows < 4
return found
""")
# KEYS: the value, the log, then index and sizes of the kind.
DROP = lua("""
local dropped = 0
for at = 1, 2 do
  if redis.call('DEL', KEYS[at]) == 1 then
    dropped = 1
    local size = tonumber(redis.call('HGET', KEYS[4], KEYS[at]) or 0)
    redis.call('HINCRBY', KEYS[4], '', -size)
  end
  redis.call('HDEL', KEYS[4], KEYS[at])
  redis.call('ZREM', KEYS[3], KEYS[at])
end
return dropped
""")
# It writes, so that a server without memory or a read-only replica is not taken for a healthy one.
CHECK = lua("""
redis.call('SET', KEYS[1], ARGV[1], 'NX')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('GET', KEYS[1])
""")
