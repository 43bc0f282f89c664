import { isIP } from 'node:net';
import { type ChannelCredentials, credentials } from '@grpc/grpc-js';
import type { Egress } from '../egress.js';

/** Where a gRPC interface is, from what a card writes: `host:port`, or a URL in older cards. */
export interface GrpcTarget {
  readonly host: string;
  readonly port: number;
  readonly secure: boolean;
}

/** Throws where the text names no host: schemes of resolvers, such as `unix:` or `xds:`, are not for cards to choose. */
export function grpcTarget(text: string): GrpcTarget {
  const scheme = /^(https?|grpcs?):\/\//i.exec(text)?.[1]?.toLowerCase();
  const rest = scheme === undefined ? text : text.slice(text.indexOf('://') + 3);
  const match = /^(?:\[([0-9a-f:.%]+)\]|([a-z0-9._-]+))(?::(\d{1,5}))?\/?$/i.exec(rest);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined) throw new TypeError(`"${text}" names no host and port`);
  const named = scheme === undefined ? undefined : scheme === 'https' || scheme === 'grpcs';
  const port = match?.[3] === undefined ? (named === false ? 80 : 443) : Number(match[3]);
  return { host, port, secure: named ?? !isNear(host) };
}

/** A bare address says nothing of TLS: it is expected of everything but machines of one's own network. */
function isNear(host: string): boolean {
  if (isIP(host) === 0) return host === 'localhost' || !host.includes('.');
  return /^(127\.|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|::1$|f[cd])/i.test(host);
}

export interface Dial {
  readonly address: string;
  readonly credentials: ChannelCredentials;
  readonly options: Readonly<Record<string, string>>;
}

/** The address to dial: with an egress policy, one that was checked, under the name it was found by. */
export async function dial(target: GrpcTarget, egress: Egress | undefined): Promise<Dial> {
  const { host, port, secure } = target;
  const authority = `${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
  const channel = secure ? credentials.createSsl() : credentials.createInsecure();
  if (!egress) return { address: authority, credentials: channel, options: {} };
  egress.checkAuthority(host, port);
  const address = isIP(host) === 0 ? await checkedAddress(host, egress) : host;
  return {
    address: `${isIP(address) === 6 ? `ipv6:[${address}]` : `ipv4:${address}`}:${port}`,
    credentials: channel,
    options: {
      'grpc.default_authority': authority,
      ...(secure && { 'grpc.ssl_target_name_override': host }),
    },
  };
}

function checkedAddress(host: string, egress: Egress): Promise<string> {
  return new Promise((resolve, reject) => {
    egress.lookup(host, {}, (error, address) => {
      if (error) reject(error);
      else resolve(String(address));
    });
  });
}
