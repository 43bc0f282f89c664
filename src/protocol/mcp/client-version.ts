/**
 * Decides which revision a client speaks. Each request is classified once, from its body; headers are only checked
 * against the body (mcp.md 5.3). A handshake negotiates the revision of its session.
 */
import { ProtocolError } from '../errors.js';
import type { RpcNotification, RpcRequest } from '../jsonrpc/message.js';
import type { JsonObject } from '../jsonrpc/raw.js';
import { decodeHeaderValue, HEADER, nameParameter } from './mirrored-headers.js';
import { type ClientCapabilities, type Implementation, isLogLevel, isObject, type LogLevel, META } from './model.js';
import {
  isRevisionDate,
  LEGACY,
  MODERN,
  NEWEST_LEGACY,
  REVISION_DATES,
  type Revision,
  revisionOf,
  soundsModern,
} from './revisions/index.js';

/** The metadata that a modern request carries about its sender. */
export interface Envelope {
  readonly revision: Revision;
  readonly capabilities: ClientCapabilities;
  readonly clientInfo: Implementation | undefined;
  readonly logLevel: LogLevel | undefined;
  readonly progressToken: string | number | undefined;
}

export type Classified =
  | { readonly kind: 'modern'; readonly envelope: Envelope }
  | { readonly kind: 'initialize' }
  /** Any other message of the legacy era; its session decides its meaning. */
  | { readonly kind: 'session' };

export type HeaderLookup = (name: string) => string | undefined;

const modernDates = MODERN.map((revision) => revision.date);

/** `header` is absent on transports without headers, which need no check. */
export function classify(message: RpcRequest | RpcNotification, header?: HeaderLookup): Classified {
  const meta = message.params.get('_meta');
  const id = message.kind === 'request' ? { id: message.id } : {};
  if (isObject(meta) && Object.hasOwn(meta, META.protocolVersion)) {
    return { kind: 'modern', envelope: readEnvelope(message, meta, header, id) };
  }
  if (message.method === 'initialize') return { kind: 'initialize' };
  const version = header?.(HEADER.version)?.trim();
  if (message.kind === 'request' && version !== undefined && soundsModern(version)) {
    const missing = [META.protocolVersion, META.clientCapabilities].filter((key) => !isObject(meta) || !(key in meta));
    throw new ProtocolError('invalid_envelope', `params._meta is missing ${missing.join(' and ')}`, {
      ...id,
      data: { missing },
    });
  }
  return { kind: 'session' };
}

function readEnvelope(
  message: RpcRequest | RpcNotification,
  meta: JsonObject,
  header: HeaderLookup | undefined,
  id: { id?: string | number },
): Envelope {
  const version = meta[META.protocolVersion];
  const capabilities = meta[META.clientCapabilities];
  const clientInfo = meta[META.clientInfo];
  const logLevel = meta[META.logLevel];
  const progressToken = meta[META.progressToken];
  const reject = (text: string): ProtocolError => new ProtocolError('invalid_envelope', text, id);
  if (typeof version !== 'string') throw reject(`params._meta["${META.protocolVersion}"] must be a string`);
  if (message.kind === 'request' && !isObject(capabilities)) {
    throw reject(`params._meta["${META.clientCapabilities}"] must be an object`);
  }
  if (clientInfo !== undefined && !isObject(clientInfo))
    throw reject(`params._meta["${META.clientInfo}"] must be an object`);
  if (header) checkMirrors(message, version, header, id);
  const revision = revisionOf(version);
  if (revision?.era !== 'modern') {
    throw new ProtocolError('unsupported_version', `Protocol version ${JSON.stringify(version)} is not supported`, {
      ...id,
      data: { supported: modernDates, requested: version },
    });
  }
  if (logLevel !== undefined && !isLogLevel(logLevel)) {
    throw new ProtocolError('invalid_params', `Unknown log level ${JSON.stringify(logLevel)}`, id);
  }
  if (progressToken !== undefined && typeof progressToken !== 'string' && typeof progressToken !== 'number') {
    throw new ProtocolError('invalid_params', 'A progress token must be a string or an integer', id);
  }
  return {
    revision,
    capabilities: isObject(capabilities) ? capabilities : {},
    clientInfo: clientInfo as Implementation | undefined,
    logLevel,
    progressToken,
  };
}

/**
 * HDR-05: a reader of the body must compare the mirrored headers with it. Notifications have no header rules (HDR-09).
 */
function checkMirrors(
  message: RpcRequest | RpcNotification,
  version: string,
  header: HeaderLookup,
  id: { id?: string | number },
): void {
  if (message.kind !== 'request') return;
  const expect = (name: string, label: string, value: string): void => {
    const sent = header(name);
    const text = sent === undefined ? undefined : decodeHeaderValue(sent);
    if (sent !== undefined && text === value) return;
    const problem =
      sent === undefined ? 'is missing' : text === undefined ? 'is not validly encoded' : 'differs from the body';
    throw new ProtocolError('header_mismatch', `The ${label} header ${problem}`, { ...id, data: { header: label } });
  };
  expect(HEADER.version, 'MCP-Protocol-Version', version);
  expect(HEADER.method, 'Mcp-Method', message.method);
  const parameter = nameParameter(message.method);
  const name = parameter && message.params.get(parameter);
  if (typeof name === 'string') expect(HEADER.name, 'Mcp-Name', name);
}

/**
 * The revision of a session, by the version that `initialize` asks for. A version that is not supported gets the newest
 * revision of the legacy era as an offer, or with `strict` an error.
 */
export function negotiateRevision(requested: unknown, strict: boolean): Revision {
  const revision = revisionOf(requested);
  if (revision?.era === 'legacy') return revision;
  if (isRevisionDate(requested) && !strict) return NEWEST_LEGACY;
  throw new ProtocolError('version_negotiation', `Unsupported protocol version ${JSON.stringify(requested ?? null)}`, {
    data: { supported: LEGACY.map(({ date }) => date), requested: requested ?? null },
  });
}

/**
 * The error for a version header that no session can have. The error is about the HTTP exchange and not about one
 * request, so it has no request id (S2-04).
 */
export const unsupportedVersion = (version: string): ProtocolError =>
  new ProtocolError(
    'unsupported_version',
    `Unsupported MCP protocol version: ${version}. Supported: ${REVISION_DATES.join(', ')}`,
    { data: { supported: LEGACY.map(({ date }) => date), requested: version } },
  );
