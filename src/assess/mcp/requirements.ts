import type { Requirement } from '../requirement.js';
import { BASE_ROWS } from './requirements-base.js';
import { FEATURE_ROWS } from './requirements-features.js';
import { PROFILE_ROWS } from './requirements-profiles.js';
import { TRANSPORT_ROWS } from './requirements-transport.js';

/** Every requirement of MCP servers. */
export const MCP_REQUIREMENTS: readonly Requirement[] = [
  ...BASE_ROWS,
  ...TRANSPORT_ROWS,
  ...FEATURE_ROWS,
  ...PROFILE_ROWS,
];
