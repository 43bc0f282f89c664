import type { Probe } from './observed.js';
import { BASE_OBSERVATIONS, BASE_PROBES } from './probes-base.js';
import { CANCELLATION_OBSERVATIONS } from './probes-cancellation.js';
import { FEATURE_PROBES } from './probes-features.js';
import { INTERACTION_OBSERVATIONS, INTERACTION_PROBES } from './probes-interaction.js';
import { LOGGING_OBSERVATIONS, LOGGING_PROBES } from './probes-logging.js';
import { MIRROR_PROBES } from './probes-mirrored.js';
import { PROFILE_OBSERVATIONS, PROFILE_PROBES } from './probes-profiles.js';
import { SECURITY_OBSERVATIONS, SECURITY_PROBES } from './probes-security.js';
import { STREAM_PROBES } from './probes-streams.js';
import { TASK_OBSERVATIONS, TASK_PROBES } from './probes-tasks.js';
import { TRANSPORT_OBSERVATIONS, TRANSPORT_PROBES } from './probes-transport.js';
import { UTILITY_OBSERVATIONS, UTILITY_PROBES } from './probes-utilities.js';

/** Probes that send requests of their own. */
export const MCP_PROBES: Readonly<Record<string, Probe>> = {
  ...BASE_PROBES,
  ...FEATURE_PROBES,
  ...UTILITY_PROBES,
  ...LOGGING_PROBES,
  ...MIRROR_PROBES,
  ...INTERACTION_PROBES,
  ...TASK_PROBES,
  ...STREAM_PROBES,
  ...PROFILE_PROBES,
  ...TRANSPORT_PROBES,
  ...SECURITY_PROBES,
};

/** Probes that examine all received messages. They run after the other probes. */
export const MCP_OBSERVATIONS: Readonly<Record<string, Probe>> = {
  ...BASE_OBSERVATIONS,
  ...UTILITY_OBSERVATIONS,
  ...CANCELLATION_OBSERVATIONS,
  ...LOGGING_OBSERVATIONS,
  ...INTERACTION_OBSERVATIONS,
  ...TASK_OBSERVATIONS,
  ...TRANSPORT_OBSERVATIONS,
  ...SECURITY_OBSERVATIONS,
  ...PROFILE_OBSERVATIONS,
};

/** The probes that make sense for a server that refuses requests without a token, if no token was given. */
export const LOCKED_PROBES: ReadonlySet<string> = new Set([
  ...[
    'missingToken',
    'tokenRequired',
    'invalidToken',
    'malformedToken',
    'challenge',
    'resourceMetadata',
    'challengeScope',
    'noOfflineAccess',
    'https',
  ],
]);
