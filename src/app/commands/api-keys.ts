/** The work of `parley keys`: changes the API keys in the configured database, while gateways may be running. */
import { CALLER_NAME, CALLER_NAME_FIX } from '../../config/auth-schema.js';
import type { Config } from '../../config/schema.js';
import { apiKeyDigest, apiKeyId, newApiKey } from '../../identity/api-key.js';
import { type ApiKey, wallMs } from '../../state/index.js';
import { type CommandStorage, withCommandStorage } from './command-storage.js';

export interface NewApiKey {
  readonly name: string;
  readonly roles: readonly string[];
  readonly servers: readonly string[];
  readonly tools: readonly string[];
  readonly tenant: string | undefined;
  /** The end of the key's life, such as `90d`, `2027-01-31` or `never`. */
  readonly expires: string;
}

export type { ApiKey };

/** A key that was just made. `key` is shown once and not stored. */
export type CreatedApiKey = ApiKey & { readonly key: string };

/** The request cannot be carried out. The message says what to change. */
export class ApiKeyProblem extends Error {
  override readonly name = 'ApiKeyProblem';
}

export const createApiKey = (config: Config, wanted: NewApiKey): Promise<CreatedApiKey> => {
  expiryOf(wanted.expires, wallMs());
  checkScope(config, wanted);
  return withCommandStorage(config, (storage) => createApiKeyIn(storage, config, wanted));
};

/** Creates an API key in a storage that is already open, such as the storage of a running gateway. */
export async function createApiKeyIn(
  { state, audit, by }: CommandStorage,
  config: Config,
  wanted: NewApiKey,
): Promise<CreatedApiKey> {
  const expiresAt = expiryOf(wanted.expires, wallMs());
  checkScope(config, wanted);
  const { name, roles, servers, tools, tenant } = wanted;
  // A caller of the same name in another tenant is a different caller.
  const others = (await state.apiKeys.list(name)).filter((other) => isActive(other) && other.tenant === tenant);
  // All keys of one name belong to one caller, and share its sessions and tasks. If their scopes differed, a key with a
  // narrow scope could read results that a key with a wider scope produced.
  const different = others.find((other) => scopeText(other) !== scopeText(wanted));
  if (different) {
    throw new ApiKeyProblem(
      `key ${different.id} of ${JSON.stringify(name)} has another scope: choose another name, or revoke that key first`,
    );
  }
  const key = newApiKey();
  const { active } = state.keyring;
  const id = apiKeyId(key);
  const scope = { name, tenant, roles, servers, tools, expiresAt };
  const created = await audit.change({ ...by, action: 'key.create', subject: id, details: scope }, () =>
    state.apiKeys.create({
      id,
      ...scope,
      digest: apiKeyDigest(key, active.key).toString('base64url'),
      keyedBy: active.id,
    }),
  );
  return { ...created, key };
}

/** The keys, newest first; with `name`, only the keys of this caller. */
export const listApiKeys = (config: Config, name?: string): Promise<ApiKey[]> =>
  withCommandStorage(config, ({ state }) => state.apiKeys.list(name));

/** Revokes a key by its id, or all keys of a caller by their name. Returns the ids of the revoked keys. */
export function revokeApiKeys(config: Config, idOrName: string): Promise<readonly string[]> {
  return withCommandStorage(config, async ({ state, audit, by }) => {
    const record = { ...by, action: 'key.revoke', subject: idOrName } as const;
    const revoked = await audit.change(
      record,
      () => state.apiKeys.revoke(idOrName),
      (keys) => (keys.length > 0 ? { details: { keys } } : undefined),
    );
    if (revoked.length > 0) return revoked;
    const known = (await state.apiKeys.list()).some(({ id, name }) => id === idOrName || name === idOrName);
    if (known) return [];
    throw new ApiKeyProblem(`there is no key ${JSON.stringify(idOrName)}; parley keys list shows the keys`);
  });
}

export const isActive = ({ revokedAt, expiresAt }: Pick<ApiKey, 'revokedAt' | 'expiresAt'>): boolean =>
  revokedAt === undefined && (expiresAt === undefined || expiresAt > wallMs());

const ROLE = /^[\w.:-]{1,64}$/;
const TENANT = /^[^\s#~]{1,128}$/;
const PATTERN = /^[\w.*-]{1,200}$/;

function checkScope(config: Config, { name, roles, servers, tools, tenant }: NewApiKey): void {
  const problem = (what: string, fix: string): never => {
    throw new ApiKeyProblem(`${what}; ${fix}`);
  };
  if (!CALLER_NAME.test(name)) problem(`${JSON.stringify(name)} is not a name for a caller`, CALLER_NAME_FIX);
  if (config.auth.tokens.some((token) => token.name === name))
    problem(`${JSON.stringify(name)} is the name of a caller in auth.tokens`, 'choose another name');
  for (const role of roles) if (!ROLE.test(role)) problem(`${JSON.stringify(role)} is not a role`, 'write one word');
  if (tenant !== undefined && !TENANT.test(tenant))
    problem(`${JSON.stringify(tenant)} is not a tenant`, 'write one word');
  for (const server of servers)
    if (!PATTERN.test(server)) problem(`${JSON.stringify(server)} is not a server`, 'write a name or a pattern');
  for (const tool of tools) {
    if (!PATTERN.test(tool) || !/^[^_].*__/.test(tool))
      problem(`${JSON.stringify(tool)} does not name a tool of a server`, 'write SERVER__TOOL, such as weather__*');
  }
}

const scopeText = ({ roles, servers, tools }: Pick<NewApiKey, 'roles' | 'servers' | 'tools'>): string =>
  JSON.stringify([roles, servers, tools].map((list) => [...list].sort()));

const UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const EXPIRY_FIX = 'write a time such as 12h, 90d or 52w, a date such as 2027-01-31, or never';

/** The end of a key's life, in milliseconds since 1970; undefined for never. */
export function expiryOf(text: string, now: number): number | undefined {
  if (text === 'never') return undefined;
  const [, amount, unit] = /^(\d{1,6})([mhdw])$/.exec(text) ?? [];
  const at = amount === undefined ? dateOf(text) : now + Number(amount) * UNITS[unit!]!;
  if (Number.isNaN(at)) throw new ApiKeyProblem(`${JSON.stringify(text)} is not a time; ${EXPIRY_FIX}`);
  if (at <= now) throw new ApiKeyProblem(`${JSON.stringify(text)} is in the past; ${EXPIRY_FIX}`);
  return at;
}

const dateOf = (text: string): number => (/^\d{4}-\d\d-\d\d(T[\d:.]+Z)?$/.test(text) ? Date.parse(text) : Number.NaN);
