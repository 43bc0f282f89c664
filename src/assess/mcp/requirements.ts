import type { Requirement } from '../requirement.js';
import { BASE_ROWS } from './requirements-base.js';
import { BRIDGE_ROWS } from './requirements-bridge.js';
import { FEATURE_ROWS } from './requirements-features.js';
import { INTERACTION_ROWS } from './requirements-interaction.js';
import { PROFILE_ROWS } from './requirements-profiles.js';
import { TRANSPORT_ROWS } from './requirements-transport.js';

/** Every requirement of MCP servers. */
export const MCP_REQUIREMENTS: readonly Requirement[] = [
  ...BASE_ROWS,
  ...TRANSPORT_ROWS,
  ...FEATURE_ROWS,
  ...INTERACTION_ROWS,
  ...BRIDGE_ROWS,
  ...PROFILE_ROWS,
];
