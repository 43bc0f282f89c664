import { group, integer, size } from './field.js';
import { rateLimits } from './rate-schema.js';

export const limits = group('Limits on sizes and numbers.', {
  body: size({ default: '4MiB', description: 'The largest request body.' }),
  event: size({ default: '4MiB', description: 'The largest message of an event stream or of a stdio server.' }),
  depth: integer({ default: 64, min: 8, max: 1000, description: 'The deepest nesting of a JSON message.' }),
  members: integer({
    default: 100_000,
    min: 1000,
    max: 10_000_000,
    description: 'Maximum number of objects, arrays and object members in a JSON message, counted together.',
  }),
  batch: integer({ default: 50, min: 1, max: 1000, description: 'Maximum number of messages in a JSON-RPC batch.' }),
  pageSize: integer({
    default: 1000,
    min: 1,
    max: 10_000,
    description: 'Maximum number of entries on one page of a list.',
  }),
  connections: integer({
    default: 10_000,
    min: 1,
    max: 1_000_000,
    description:
      'Maximum number of open connections; at the limit the gateway closes the connection that was idle for longest.',
  }),
  connectionsPerAddress: integer({
    default: 1000,
    min: 1,
    max: 1_000_000,
    description:
      'Maximum number of connections from one address (IPv6: one /64 network); for each client behind one of the ' +
      '`trustedProxies` it limits the concurrent requests instead.',
  }),
  callsPerCaller: integer({
    default: 2000,
    min: 1,
    max: 1_000_000,
    description: 'Maximum number of concurrent calls of one caller; applies with `auth`.',
  }),
  callsPerSession: integer({
    default: 500,
    min: 1,
    max: 1_000_000,
    description: 'Maximum number of concurrent calls of one session, in revisions with sessions.',
  }),
  callsPerServer: integer({
    default: 5000,
    min: 1,
    max: 1_000_000,
    description: 'Maximum number of concurrent calls to one server.',
  }),
  callBytesPerCaller: size({
    default: '64MiB',
    description: 'Maximum number of bytes of the requests of concurrent calls of one caller; applies with `auth`.',
  }),
  callBytes: size({
    default: '256MiB',
    description: 'Maximum number of bytes of the requests of all concurrent calls.',
  }),
  webSockets: integer({
    default: 1000,
    min: 1,
    max: 1_000_000,
    description: 'Maximum number of open WebSockets.',
  }),
  webSocketsPerCaller: integer({
    default: 100,
    min: 1,
    max: 1_000_000,
    description: 'Maximum number of open WebSockets of one caller; without `auth` all clients are one caller.',
  }),
  head: size({ default: '16KiB', description: "The largest head of a client's request." }),
  unread: size({
    default: '128MiB',
    description:
      'Maximum number of bytes that wait for slow clients, for all clients together; beyond it the gateway closes the ' +
      'connections of the slowest readers.',
  }),
  ...rateLimits,
});
