import { createHash } from 'node:crypto';

/**
 * A Lua script makes every decision inside Redis, so no other command can run between a check and the write that
 * depends on it. All keys of a script have the same hash tag, so they are in one slot of a Redis Cluster.
 */
export interface Script {
  readonly text: string;
  readonly sha: string;
}

function script(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') };
}

const CLOCK = `local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000)`;
const PARSE = `local function parse(id) local e, s = string.match(id, '^(%d+)-(%d+)$') return tonumber(e), tonumber(s) end
local function id(e, s) return string.format('%.0f-%.0f', e, s) end`;

/**
 * KEYS stream, lease. ARGV data, maxLen, maxBytes, ttlMs, fence or '', mark, wake channel, stream name.
 * An entry holds d (data), c (bytes since the start of the stream), m (mark).
 */
export const APPEND = script(`
${PARSE}
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if newest and newest[2][6] == ARGV[6] then return newest[1] end
if ARGV[5] ~= '' and redis.call('HGET', KEYS[2], 'fence') ~= ARGV[5] then return false end
local epoch, seq, bytes
if newest then
  epoch, seq = parse(newest[1])
  bytes = tonumber(newest[2][4])
else
  ${CLOCK}
  epoch, seq, bytes = now, 0, 0
end
bytes = bytes + #ARGV[1]
local new = id(epoch, seq + 1)
redis.call('XADD', KEYS[1], new, 'd', ARGV[1], 'c', string.format('%.0f', bytes), 'm', ARGV[6])
redis.call('XTRIM', KEYS[1], 'MAXLEN', ARGV[2])
local floor = bytes - tonumber(ARGV[3])
while floor > 0 do
  local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
  local before = tonumber(oldest[2][4]) - #oldest[2][2]
  if oldest[1] == new or before >= floor then break end
  redis.call('XDEL', KEYS[1], oldest[1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('PUBLISH', ARGV[7], ARGV[8])
return new
`);

/** KEYS stream. ARGV after, limit. Returns a flat list of ids and data, or false for a gap. */
export const READ = script(`
${PARSE}
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if not newest then
  if ARGV[1] == '0' then return {} end
  return false
end
local epoch, last = parse(newest[1])
local _, first = parse(redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1][1])
local e, s = epoch, 0
if ARGV[1] ~= '0' then e, s = parse(ARGV[1]) end
if e ~= epoch or s < first - 1 or s > last then return false end
local out = {}
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], id(e, s + 1), '+', 'COUNT', ARGV[2])) do
  out[#out + 1] = entry[1]
  out[#out + 1] = entry[2][2]
end
return out
`);

/**
 * KEYS lease, fence counter of this lease. ARGV owner, ttlMs, lifetime of the counter. The clock makes fences rise even
 * after the counter expires or Redis loses all data.
 */
export const LEASE = script(`
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= ARGV[1] then return false end
if not owner then
  ${CLOCK}
  local fence = math.max(now, tonumber(redis.call('GET', KEYS[2]) or '0') + 1)
  local text = string.format('%.0f', fence)
  redis.call('SET', KEYS[2], text, 'PX', ARGV[3])
  redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'fence', text)
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('HGET', KEYS[1], 'fence')
`);

/** KEYS lease. ARGV owner, ttlMs. */
export const RENEW = script(`
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
`);

/** KEYS lease. ARGV owner. */
export const RELEASE = script(`
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
`);

/**
 * KEYS members, sorted by the end of their leases. ARGV member, ttlMs (0 removes the member). Returns a flat list of
 * members and the remaining milliseconds of each.
 */
export const MEMBERS = script(`
${CLOCK}
if tonumber(ARGV[2]) > 0 then
  redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local out = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 2, #out, 2 do out[i] = string.format('%.0f', out[i] - now) end
return out
`);

/** KEYS counter. ARGV n, ttlMs. */
export const INCR = script(`
local value = redis.call('INCRBY', KEYS[1], ARGV[1])
if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return value
`);
