import { ERROR_PROFILES, type ErrorProfile } from '../protocol/a2a/dialect.js';
import { httpUrl, listenAddress } from './address-fields.js';
import { duration, flag, group, integer, oneOf, size, text } from './field.js';

export const grpc = group('The gRPC endpoint for A2A; off unless `listen` is set.', {
  listen: listenAddress({ description: 'The address to listen on; an address other than loopback needs `auth`.' }),
  publicAddress: listenAddress({
    description: 'Host and port of the gRPC endpoint for clients, written into agent cards.',
  }),
});

export const a2a = group('The A2A endpoints.', {
  enabled: flag({
    default: true,
    description: 'Whether the gateway serves A2A.',
    oldNames: ['A2A_GATEWAY_ENABLED'],
  }),
  publicCards: flag({ default: true, description: 'Whether callers without a token may read agent cards.' }),
  name: text({ default: 'Parley', description: "The name on the routing agent's card." }),
  description: text({
    default: 'A gateway to the agents behind it; each message goes to the one that suits it.',
    description: "The description on the routing agent's card.",
  }),
  organization: text({ description: "The provider on the routing agent's card." }),
  organizationUrl: httpUrl({ description: "The provider's URL." }),
  documentationUrl: httpUrl({ description: "The URL of the documentation on the routing agent's card." }),
  errorProfile: oneOf([...ERROR_PROFILES] as readonly ErrorProfile[], {
    default: ERROR_PROFILES[0],
    description: 'The A2A patch version that defines the HTTP and gRPC status of each error.',
  }),
  maxHops: integer({
    default: 8,
    min: 1,
    max: 100,
    description: 'Maximum number of gateways that a message may pass through.',
  }),
  taskTtl: duration({ default: '72h', description: 'How long a task is stored after its last change.' }),
  parts: integer({
    default: 1000,
    min: 1,
    max: 100_000,
    description: 'Maximum number of parts in a message or artifact.',
  }),
  artifacts: integer({ default: 1000, min: 1, max: 100_000, description: 'Maximum number of artifacts in a task.' }),
  history: integer({
    default: 1000,
    min: 1,
    max: 100_000,
    description: 'Maximum number of messages in the history of a task.',
  }),
  tasks: integer({
    default: 10_000,
    min: 10,
    max: 10_000_000,
    description: 'Maximum number of stored tasks of a caller; beyond it the gateway removes the oldest finished tasks.',
  }),
  taskSize: size({
    default: '16MiB',
    description:
      'Maximum size of a task; beyond it the gateway drops the oldest messages of the history, or refuses the task.',
  }),
  streams: integer({
    default: 100,
    min: 1,
    max: 100_000,
    description: 'Maximum number of open streams of a caller.',
  }),
  followed: integer({
    default: 1000,
    min: 1,
    max: 100_000,
    description:
      'Maximum number of unfinished tasks of a caller that a replica follows for webhooks, or after the client left the stream.',
  }),
  pushConfigs: integer({ default: 20, min: 1, max: 1000, description: 'Maximum number of webhooks of a task.' }),
});
