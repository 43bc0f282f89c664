/** Encrypts the stored values of the authorization server and of the signing keys again, after a change of the key. */
import type { Purpose, Seal } from '../core/seal.js';
import type { CardKeyRecord } from '../identity/card-keys.js';
import type { SigningKeyRecord } from '../identity/oauth-server/signing-keys.js';
import type { Registry, State } from '../state/index.js';

export interface Reencrypted {
  rewritten: number;
  /** Values that cannot be opened: their key is missing, or they were changed. */
  failed: number;
}

const BATCH = 200;

/**
 * Encrypts clients, grants, refresh tokens and the keys that sign tokens and cards again. These values live longer than
 * operators keep an old key.
 */
export async function reencryptStored(state: State, seal: Seal): Promise<Reencrypted> {
  const result: Reencrypted = { rewritten: 0, failed: 0 };
  const counted = async (work: () => Promise<boolean>): Promise<void> => {
    try {
      if (await work()) result.rewritten++;
    } catch {
      result.failed++;
    }
  };
  for (let after = { model: '', id: '' }; ; ) {
    const page = await state.oauthRecords.page(after, BATCH);
    for (const record of page)
      await counted(async () => {
        const next = seal.reseal('oauth', `${record.model} ${record.id}`, record.sealed);
        return next !== undefined && state.oauthRecords.reseal(record, next);
      });
    if (page.length < BATCH) break;
    after = page.at(-1)!;
  }
  const registry = state.registry as Registry<SigningKeyRecord | CardKeyRecord>;
  await counted(() => keysResealed(registry, 'oauth', (text) => seal.reseal(...SIGNING_KEY, text)));
  await counted(() => keysResealed(registry, 'cards', (text) => seal.reseal(...CARD_KEY, text)));
  return result;
}

/** The purposes and names under which the keys are sealed. */
export const SIGNING_KEY: readonly [Purpose, string] = ['key', 'oauth'];
export const CARD_KEY: readonly [Purpose, string] = ['key', 'parley'];

/**
 * Returns whether anything was rewritten. If another process changes the keys at the same time, it seals them itself.
 */
async function keysResealed(
  registry: Registry<SigningKeyRecord | CardKeyRecord>,
  name: string,
  reseal: (text: string) => string | undefined,
): Promise<boolean> {
  const entry = await registry.get('key', name);
  if (!entry) return false;
  let changed = false;
  const next = (text: string): string => {
    const made = reseal(text);
    changed ||= made !== undefined;
    return made ?? text;
  };
  const { value } = entry;
  const keys = value.keys.map((key) => (key.sealed === undefined ? key : { ...key, sealed: next(key.sealed) }));
  const record = 'secret' in value ? { ...value, keys, secret: next(value.secret) } : { ...value, keys };
  return changed && (await registry.put('key', name, record, entry.rev)) !== undefined;
}
