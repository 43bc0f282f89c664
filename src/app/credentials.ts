import type { Config } from '../config/schema.js';
import { CONFIGURED, type Credentials } from '../identity/credentials.js';

/** The credentials of requests to servers and agents. */
export function credentialsOf(_: Config): Credentials {
  return CONFIGURED;
}
