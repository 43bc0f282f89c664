import { type OfferedInterface, VERSIONS, type Version } from '../../protocol/a2a/dialect.js';
import { interfacesOf } from '../../protocol/a2a/index.js';
import type { Binding } from '../../protocol/a2a/model.js';
import { requestFormatOf } from '../../protocol/a2a/request-format.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import type { Egress } from '../egress.js';
import { baseOf } from './card-discovery.js';

export type VersionSetting = 'auto' | Version;
export type BindingSetting = 'auto' | 'jsonrpc' | 'rest' | 'grpc';

export const BINDINGS: Record<Exclude<BindingSetting, 'auto'>, Binding> = {
  jsonrpc: 'JSONRPC',
  rest: 'HTTP+JSON',
  grpc: 'GRPC',
};

/** An interface that can be called, and whether its URL comes from the operator or from the card. */
export interface Candidate extends OfferedInterface {
  readonly key: string;
  readonly trusted: boolean;
}

export interface Choice {
  /** The configured URL. */
  readonly url: string;
  readonly version: VersionSetting;
  readonly binding: BindingSetting;
  readonly egress: Egress;
  /** Allowed hosts of the card's interfaces, besides the host of the configured URL. */
  readonly hosts?: readonly string[] | undefined;
  /** Called for an interface that is not used because of its host. */
  readonly refused?: (url: string) => void;
  /** The supported bindings. */
  readonly bindings: readonly Binding[];
}

/**
 * The usable interfaces of a card, in the card's order (C-2, C-3). Some URLs of a card must not be dialled: an invalid
 * one such as `http://[::]:8080`, one inside the agent's own network, or one at a host that is not registered (S30).
 * The gateway then dials the same path at the configured origin instead.
 */
export function candidates(card: JsonObject, choice: Choice): Candidate[] {
  const found: Candidate[] = [];
  const add = (offered: OfferedInterface, trusted: boolean): void => {
    const { url, binding, version, tenant } = offered;
    const key = JSON.stringify([url, binding, version, tenant ?? null]);
    if (!found.some((each) => each.key === key)) found.push({ url, binding, version, tenant, key, trusted });
  };
  const offered = wanted(interfacesOf(card), choice).filter((each) => isCallable(each, choice.bindings));
  for (const each of offered) {
    const place = placeOf(each, choice);
    if (place) add({ ...each, url: place.url }, place.trusted);
  }
  // A host name of the card may resolve to a forbidden address. The same path at the configured origin is the fallback.
  for (const each of offered) {
    const url = atOrigin(each, choice.url);
    if (url !== undefined) add({ ...each, url }, true);
  }
  return found;
}

/**
 * Interfaces that the card does not name: each JSON-RPC interface in every other version. The gateway tries them only
 * after the agent refused the versions of all interfaces of the card.
 */
export function guesses(known: readonly Candidate[], { version }: Choice): Candidate[] {
  if (version !== 'auto') return [];
  const found: Candidate[] = [];
  for (const each of known) {
    if (each.binding !== 'JSONRPC') continue;
    for (const other of VERSIONS) {
      const key = JSON.stringify([each.url, each.binding, other, each.tenant ?? null]);
      if (!known.some((one) => one.key === key)) found.push({ ...each, version: other, key });
    }
  }
  return found;
}

/** The interfaces that the configuration selects, whether or not the card offers them. */
function wanted(offered: readonly OfferedInterface[], { url, version, binding }: Choice): OfferedInterface[] {
  const named = binding === 'auto' ? undefined : BINDINGS[binding];
  const ofBinding = offered.filter((each) => named === undefined || each.binding === named);
  const exact = ofBinding.filter((each) => version === 'auto' || each.version === version);
  if (exact.length > 0) return exact;
  const as = version === 'auto' ? offered[0]?.version : version;
  if (as === undefined) return [];
  if (ofBinding.length > 0) return ofBinding.map((each) => ({ ...each, version: as }));
  return [{ url: baseOf(url), binding: named ?? 'JSONRPC', version: as, tenant: undefined }];
}

function isCallable({ binding, version }: OfferedInterface, bindings: readonly Binding[]): boolean {
  return bindings.includes(binding) && (binding !== 'HTTP+JSON' || requestFormatOf(version).rest !== undefined);
}

/**
 * S30: the URLs of a card may use only the host that the operator registered, or hosts that the operator allows.
 * Otherwise everybody who can change the card would receive the calls and the credentials.
 */
function isRegistered(
  hostname: string,
  url: string,
  { url: configured, hosts = [], egress, refused }: Choice,
): boolean {
  if (hostname === new URL(configured).hostname || hosts.includes(hostname) || egress.names(hostname)) return true;
  refused?.(url);
  return false;
}

function placeOf({ url, binding }: OfferedInterface, choice: Choice): { url: string; trusted: boolean } | undefined {
  const { url: configured, egress } = choice;
  if (binding === 'GRPC') return grpcPlace(url, choice);
  const resolved = URL.canParse(url, configured) ? new URL(url, configured) : undefined;
  const own = new URL(configured);
  if (!resolved) return undefined;
  if (resolved.origin === own.origin) return { url: resolved.href, trusted: true };
  // If https is configured, a card must not choose http: the credentials would be sent without encryption.
  if (own.protocol === 'https:' && resolved.protocol !== 'https:') return undefined;
  if (!isRegistered(resolved.hostname, url, choice)) return undefined;
  try {
    egress.checkSecureUrl(resolved.href);
    return { url: resolved.href, trusted: false };
  } catch {
    return undefined;
  }
}

function grpcPlace(url: string, choice: Choice): { url: string; trusted: boolean } | undefined {
  const { url: configured, egress } = choice;
  const bare = url.replace(/^(?:https?|grpcs?):\/\//i, '').replace(/\/.*$/, '');
  // A text with another scheme, such as unix: or xds:, is not a valid address.
  const address = /^(?:\[[0-9a-f:.]+\]|[^:[\]/]+):\d+$/i.test(bare) ? new URL(`http://${bare}`) : undefined;
  if (!address) return undefined;
  const own = new URL(configured);
  const port = Number(address.port || 80);
  if (address.hostname === own.hostname && port === Number(own.port || (own.protocol === 'https:' ? 443 : 80)))
    return { url, trusted: true };
  if (!isRegistered(address.hostname, url, choice)) return undefined;
  try {
    egress.checkAuthority(address.hostname, port);
    return { url, trusted: false };
  } catch {
    return undefined;
  }
}

/** The same path at the configured origin. */
function atOrigin({ url, binding }: OfferedInterface, configured: string): string | undefined {
  if (binding === 'GRPC' || !URL.canParse(url, configured)) return undefined;
  const { pathname, search } = new URL(url, configured);
  return new URL(configured).origin + pathname + search;
}
