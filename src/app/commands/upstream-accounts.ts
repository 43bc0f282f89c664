/** The commands of operators for sign-ins at upstreams; they work beside a running gateway. */
import type { Config } from '../../config/schema.js';
import { type Diagnosis, diagnose } from '../../identity/upstream-login/doctor.js';
import { DOCUMENT_PATH } from '../../identity/upstream-login/login-flow.js';
import type { LoginSettings } from '../../identity/upstream-login/login-settings.js';
import type { VaultRow } from '../../state/index.js';
import type { Log } from '../../telemetry/log.js';
import { safeHttpOf } from '../outbound-urls.js';
import { upstreamFetch } from '../upstream-logins.js';
import { withCommandStorage } from './command-storage.js';
import { removal } from './vault.js';

/** A user's account at an upstream, without its secret. */
export interface UpstreamAccount {
  readonly user: string;
  readonly upstream: string;
  readonly issuer: string;
  readonly state: string;
  readonly reason?: string;
  readonly since: number;
  readonly expiresAt?: number;
}

/** The server or agent of this name; the server if both exist. */
function upstreamOf(
  config: Config,
  name: string,
): { readonly id: string; readonly url: string; readonly oauth: LoginSettings } {
  const wanted = name.toLowerCase();
  const server = config.servers[wanted];
  const agent = config.agents[wanted];
  const { url, auth } = server ?? agent ?? {};
  if (!auth) throw new Error(`there is no server or agent "${name}" in the configuration`);
  if (url === undefined) throw new Error(`"${name}" has no url, so users cannot sign in at it`);
  return { id: `${server ? 'server' : 'agent'}:${wanted}`, url, oauth: auth.oauth };
}

export async function diagnoseUpstream(config: Config, name: string): Promise<Diagnosis & { readonly url: string }> {
  const { url, oauth: settings } = upstreamOf(config, name);
  const safeHttp = safeHttpOf(config);
  const { fetch, client } = upstreamFetch(
    safeHttp,
    config.servers[name.toLowerCase()] ?? config.agents[name.toLowerCase()],
    url,
    settings,
  );
  try {
    const base = config.publicUrl?.replace(/\/+$/, '');
    const documentUrl = base?.startsWith('https://') ? `${base}${DOCUMENT_PATH}` : undefined;
    return { url, ...(await diagnose({ url, settings, fetch, documentUrl })) };
  } finally {
    await Promise.all([client.close(), safeHttp.close()]);
  }
}

const isLogin = (config: Config, upstream: string): boolean => {
  const [kind, name = ''] = upstream.split(':');
  const entry = kind === 'server' ? config.servers[name] : config.agents[name];
  return entry?.auth.clientCredentials.clientId === undefined && entry?.auth.tokenExchange.clientId === undefined;
};

/** The accounts of all users at all upstreams, or at one upstream. */
export function listAccounts(config: Config, log: Log, name: string | undefined): Promise<UpstreamAccount[]> {
  const upstream = name === undefined ? undefined : upstreamOf(config, name).id;
  return withCommandStorage(
    config,
    async ({ state }) => accountsOf(config, await state.vault.list(upstream === undefined ? {} : { upstream })),
    log,
  );
}

function accountsOf(config: Config, rows: readonly VaultRow[]): UpstreamAccount[] {
  return rows
    .filter((row) => isLogin(config, row.upstream))
    .map(({ caller, upstream: at, issuer, state, reason, since, expiresAt }) => ({
      user: caller,
      upstream: at,
      issuer,
      state,
      since,
      ...(reason !== undefined && { reason }),
      ...(expiresAt !== undefined && { expiresAt }),
    }));
}

/** Forgets the tokens of one user, or of all users, at one upstream. Returns the users. */
export function logOut(config: Config, log: Log, name: string, user: string | undefined): Promise<string[]> {
  const { id } = upstreamOf(config, name);
  return withCommandStorage(
    config,
    async ({ state: { vault }, audit, by }) => {
      const rows = await vault.list({ upstream: id, ...(user !== undefined && { caller: user }) });
      for (const row of rows) await audit.change(removal(by, row), () => vault.remove(row.id));
      return [...new Set(rows.map(({ caller }) => caller))];
    },
    log,
  );
}
