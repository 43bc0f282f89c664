import type { Config } from '../config/schema.js';
import { CONFIGURED, type Credentials } from '../identity/upstream-credentials.js';

/** The credentials that requests to servers and agents carry. */
export function credentialsOf(_: Config): Credentials {
  return CONFIGURED;
}
