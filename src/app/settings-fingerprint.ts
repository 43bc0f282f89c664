import { createHmac } from 'node:crypto';
import type { State } from '../state/index.js';

/**
 * The version of settings that come from the configuration file, equal on all replicas. The version is a keyed hash,
 * because settings contain secrets: the reader of a plain hash could guess secrets and check each guess.
 */
export function fingerprintOf({ keyring }: Pick<State, 'keyring'>): (settings: object) => string {
  const known = new WeakMap<object, string>();
  return (settings) => {
    let version = known.get(settings);
    if (version === undefined) {
      const hash = createHmac('sha256', keyring.active.key).update('settings\0').update(JSON.stringify(settings));
      version = `c${hash.digest('base64url').slice(0, 22)}`;
      known.set(settings, version);
    }
    return version;
  };
}
