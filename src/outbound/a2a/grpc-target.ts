import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { type ChannelCredentials, credentials } from '@grpc/grpc-js';
import type { Egress } from '../egress.js';
import { type ForwardProxy, type HttpClientOptions, isPem } from '../http/index.js';

/** The address of a gRPC interface. Cards have `host:port`, older cards a URL. */
export interface GrpcTarget {
  readonly host: string;
  readonly port: number;
  readonly secure: boolean;
}

/** Throws if the text has no host and port. Cards may not use resolver schemes such as `unix:` or `xds:`. */
export function grpcTarget(text: string): GrpcTarget {
  const scheme = /^(https?|grpcs?):\/\//i.exec(text)?.[1]?.toLowerCase();
  const rest = scheme === undefined ? text : text.slice(text.indexOf('://') + 3);
  const match = /^(?:\[([0-9a-f:.%]+)\]|([a-z0-9._-]+))(?::(\d{1,5}))?\/?$/i.exec(rest);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined) throw new TypeError(`"${text}" has no host and port`);
  const named = scheme === undefined ? undefined : scheme === 'https' || scheme === 'grpcs';
  const port = match?.[3] === undefined ? (named === false ? 80 : 443) : Number(match[3]);
  return { host, port, secure: named ?? !isNear(host) };
}

/**
 * Whether a host is in the local network. An address without a scheme uses TLS unless its host is in the local network.
 */
function isNear(host: string): boolean {
  if (isIP(host) === 0) return host === 'localhost' || !host.includes('.');
  return /^(127\.|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|::1$|f[cd])/i.test(host);
}

export interface Dial {
  readonly address: string;
  readonly credentials: ChannelCredentials;
  readonly options: Readonly<Record<string, string>>;
}

/**
 * Prepares the address to dial. With an egress policy, the address is a checked IP address, and TLS uses the original
 * name. The address of a proxy that a caller supplied is checked too. The TLS and proxy settings are those of the HTTP
 * client for the same origin.
 */
export async function dial(
  target: GrpcTarget,
  egress: Egress | undefined,
  { tls, proxy }: Pick<HttpClientOptions, 'tls' | 'proxy'> = {},
): Promise<Dial> {
  const { host, port, secure } = target;
  const authority = `${bracketed(host)}:${port}`;
  const channel = secure ? secureChannel(tls) : credentials.createInsecure();
  const tunnel = proxy?.(`${secure ? 'https' : 'http'}://${authority}`);
  const name = tls?.serverName ?? (egress || tunnel ? host : undefined);
  const named = {
    ...((egress || tunnel) && { 'grpc.default_authority': authority }),
    ...(secure && name !== undefined && { 'grpc.ssl_target_name_override': name }),
  };
  const address = await addressOf(host, port, egress);
  if (!tunnel) return { address, credentials: channel, options: named };
  const options = { ...named, ...credentialsOf(tunnel), 'grpc.http_connect_target': address.replace(/^ipv[46]:/, '') };
  return { address: await addressOfProxy(tunnel), credentials: channel, options };
}

/** The address for the gRPC library: a checked IP address with an egress policy, otherwise the host name. */
async function addressOf(host: string, port: number, egress: Egress | undefined): Promise<string> {
  if (!egress) return `${bracketed(host)}:${port}`;
  egress.checkAuthority(host, port);
  const checked = await egress.addressOf(host);
  return `${isIP(checked) === 6 ? 'ipv6' : 'ipv4'}:${bracketed(checked)}:${port}`;
}

const bracketed = (host: string): string => (isIP(host) === 6 ? `[${host}]` : host);

function secureChannel(tls: HttpClientOptions['tls']): ChannelCredentials {
  const pem = (value: string | undefined): Buffer | null =>
    value === undefined ? null : isPem(value) ? Buffer.from(value) : readFileSync(value);
  return credentials.createSsl(pem(tls?.ca), pem(tls?.key), pem(tls?.cert));
}

/** The gRPC library supports only proxies with plain HTTP. */
function addressOfProxy({ origin, egress }: ForwardProxy): Promise<string> {
  const { protocol, hostname, port } = new URL(origin);
  if (protocol !== 'http:') throw new TypeError('gRPC supports only proxies with an http:// URL');
  return addressOf(hostname.replace(/^\[|\]$/g, ''), Number(port || 80), egress);
}

function credentialsOf({ headers }: ForwardProxy): Readonly<Record<string, string>> {
  const [, basic] = /^Basic (.*)$/.exec(headers[1] ?? '') ?? [];
  return basic === undefined ? {} : { 'grpc.http_connect_creds': Buffer.from(basic, 'base64').toString() };
}
