/**
 * Environment variables of the gateways that Parley follows, whose values need a conversion or have no counterpart. A
 * variable with the same meaning as a key is named at the key itself (`oldNames` in the schema).
 */
export type OtherGatewayVariable = {
  readonly name: string;
} & (
  | {
      /** The key that the variable sets. */
      readonly key: readonly string[];
      /** The values for the key, written as in a file; several variables of one list are joined. */
      values(written: string): readonly string[];
      readonly list?: true;
      /** How the value is converted, for the reference. */
      readonly note?: string;
    }
  | {
      /** Why the variable has no effect, and the alternative. */
      readonly ignored: string;
    }
);

const as = (written: string): string[] => [written.trim()];
const seconds = (written: string): string[] => [`${written.trim()}s`];
const commas = (written: string): string[] =>
  written
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
/** `.example.com` means every host below it. */
const hosts = (written: string): string[] => commas(written).map((host) => (host.startsWith('.') ? `*${host}` : host));

const ALLOW = { key: ['egress', 'allow'], list: true, note: 'comma-separated; added to the others' } as const;
const ALLOW_PRIVATE = { key: ['egress', 'allowPrivate'], values: as } as const;
const UNCHANGED_STREAMS = 'streams of agents always pass event by event';
const FIXED_SSE = 'the gateway chooses this time itself';

export const OTHER_GATEWAY_VARIABLES: readonly OtherGatewayVariable[] = [
  { name: 'A2A_BASE_URL', key: ['publicUrl'], values: as },
  { name: 'A2A_TASK_TTL_SECONDS', key: ['a2a', 'taskTtl'], values: seconds, note: 'seconds' },
  { name: 'MCP_SESSION_TIMEOUT', key: ['session', 'idle'], values: seconds, note: 'seconds' },
  { name: 'MCP_TOOLS_PAGE_SIZE', key: ['limits', 'pageSize'], values: as },
  { name: 'LLMROUTER_OUTBOUND_HOST_ALLOWLIST', ...ALLOW, values: hosts },
  { name: 'LLMROUTER_OUTBOUND_CIDR_ALLOWLIST', ...ALLOW, values: commas },
  { name: 'LLMROUTER_SSRF_ALLOWLIST_HOSTS', ...ALLOW, values: hosts },
  { name: 'LLMROUTER_SSRF_ALLOWLIST_CIDRS', ...ALLOW, values: commas },
  { name: 'LLMROUTER_OUTBOUND_ALLOW_PRIVATE', ...ALLOW_PRIVATE },
  { name: 'LLMROUTER_ALLOW_PRIVATE_IPS', ...ALLOW_PRIVATE },
  { name: 'LLMROUTER_OUTBOUND_URL_ALLOWLIST', ignored: 'egress.allow takes hosts and networks, not URLs' },
  { name: 'A2A_STREAM_RAW', ignored: UNCHANGED_STREAMS },
  { name: 'A2A_RAW_STREAMING_ENABLED', ignored: UNCHANGED_STREAMS },
  { name: 'A2A_RAW_STREAMING_CHUNK_SIZE', ignored: UNCHANGED_STREAMS },
  { name: 'A2A_TASK_RATE_LIMIT', ignored: 'write a limit in limits.rates' },
  { name: 'A2A_TASK_STORE_MAX_TASKS', ignored: 'a2a.taskTtl bounds the stored tasks' },
  { name: 'MCP_HA_SYNC_ENABLED', ignored: 'replicas with the same state.db or state.bus always share their state' },
  { name: 'MCP_SYNC_INTERVAL', ignored: 'replicas learn of changes at once' },
  {
    name: 'MCP_OAUTH_ENABLED',
    ignored: 'write auth.builtin for OAuth with the users of the gateway, or auth.jwt for another server',
  },
  { name: 'MCP_RESOURCES_PAGE_SIZE', ignored: 'limits.pageSize applies to every list' },
  { name: 'MCP_SERVER_NAME', ignored: 'the gateway names itself Parley; a2a.name is the name on its card' },
  { name: 'MCP_SERVER_VERSION', ignored: 'the gateway reports its own version' },
  { name: 'MCP_SSE_HEARTBEAT_INTERVAL', ignored: FIXED_SSE },
  { name: 'MCP_SSE_MAX_CONNECTION_DURATION', ignored: FIXED_SSE },
  { name: 'MCP_SSE_RETRY_INTERVAL_MS', ignored: FIXED_SSE },
  { name: 'MCP_SSE_SESSION_TIMEOUT', ignored: 'session.idle applies to every session' },
  { name: 'MCP_PROXY_CONNECT_TIMEOUT', ignored: 'timeouts.connect applies to every server' },
  { name: 'MCP_PROXY_READ_TIMEOUT', ignored: 'timeouts.call applies to every server' },
  { name: 'MCP_TRACING_ENABLED', ignored: 'tracing.enabled applies to both protocols' },
  { name: 'A2A_TRACING_ENABLED', ignored: 'tracing.enabled applies to both protocols' },
  { name: 'ROUTEIQ_MAX_CONCURRENT_REQUESTS', ignored: 'write a limit with concurrent in limits.rates' },
];
