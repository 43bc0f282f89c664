/** `parley vault`: lists, encrypts again and removes the secrets for upstreams. Never returns a secret. */
import type { Config } from '../../config/schema.js';
import type { AuditActor, GivenChange } from '../../core/audit-trail.js';
import { Seal } from '../../core/seal.js';
import { GATEWAY_OWNER } from '../../identity/vault/vault.js';
import { type State, type VaultRow, wallMs } from '../../state/index.js';
import { resealStored } from '../reseal-stored.js';
import { withCommandStorage } from './command-storage.js';

export interface VaultFilter {
  readonly caller?: string | undefined;
  /** The name of a server or agent, or `server:name` or `agent:name`. */
  readonly upstream?: string | undefined;
}

/** A row as operators see it. */
export interface ShownSecret extends Omit<VaultRow, 'rev' | 'variant'> {
  /** Whether the secret belongs to the gateway itself and not to a caller. */
  readonly ofGateway: boolean;
}

const BATCH = 200;

export function listSecrets(config: Config, filter: VaultFilter): Promise<ShownSecret[]> {
  return withCommandStorage(config, ({ state }) => found(state, filter));
}

export interface Rotated {
  /** The id of the key that all secrets are encrypted under now. */
  readonly keyId: string;
  readonly rewritten: number;
  /** The number of rows that cannot be decrypted: their key is missing, or their content was changed. */
  readonly failed: number;
}

/** Encrypts everything that is stored encrypted under the first key of `state.keys`. */
export function rotateSecrets(config: Config): Promise<Rotated> {
  return withCommandStorage(config, ({ state, audit, by }) =>
    audit.change(
      { ...by, action: 'vault.rotate', subject: state.keyring.active.id },
      () => rotated(state),
      ({ rewritten, failed }) => ({ details: { rewritten, failed } }),
    ),
  );
}

async function rotated(state: State): Promise<Rotated> {
  const result = { keyId: state.keyring.active.id, rewritten: 0, failed: 0 };
  for (const store of [state.registry, state.upstreamClients]) {
    const { rewritten, failed } = await store.rotate();
    result.rewritten += rewritten;
    result.failed += failed;
  }
  const { rewritten, failed } = await resealStored(state, new Seal(state.keyring, wallMs));
  result.rewritten += rewritten;
  result.failed += failed;
  for (let after = ''; ; ) {
    const batch = await state.vault.rotate(after, BATCH);
    result.rewritten += batch.rewritten;
    result.failed += batch.failed;
    if (batch.last === '') break;
    after = batch.last;
  }
  return result;
}

/** Removes the secrets that match. Running gateways stop using them within a second. */
export function forgetSecrets(
  config: Config,
  filter: VaultFilter & { id?: string | undefined },
): Promise<ShownSecret[]> {
  return withCommandStorage(config, async ({ state, audit, by }) => {
    const { id } = filter;
    const rows = (await found(state, filter)).filter((row) => id === undefined || row.id.startsWith(id));
    for (const row of rows) await audit.change(removal(by, row), () => state.vault.remove(row.id));
    return rows;
  });
}

async function found(state: State, { caller, upstream }: VaultFilter): Promise<ShownSecret[]> {
  const rows = await state.vault.list(
    caller === undefined ? {} : { caller: caller === 'gateway' ? GATEWAY_OWNER : caller },
  );
  const wanted = upstream?.toLowerCase();
  return rows
    .filter((row) => wanted === undefined || row.upstream === wanted || row.upstream.endsWith(`:${wanted}`))
    .map(({ rev: _, variant: __, ...row }) => ({ ...row, ofGateway: row.caller === GATEWAY_OWNER }));
}

/** The record of a removed secret. */
export const removal = (
  by: AuditActor,
  { caller: owner, upstream, issuer }: Pick<VaultRow, 'caller' | 'upstream' | 'issuer'>,
): GivenChange => ({ ...by, action: 'credential.remove', subject: upstream, details: { owner, issuer } });
