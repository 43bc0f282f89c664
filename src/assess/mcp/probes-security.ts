/** Probes of authorization, and of attacks through web sites. */
import { headerOf } from '../../protocol/http/headers.js';
import { disclosesInside } from '../disclosure.js';
import { asList, asObject, isObject, type Json } from '../json.js';
import { expect, fail, PASS, skip, type Verdict } from '../requirement.js';
import { isRefused, type Reply } from '../wire/reply.js';
import { type Probe, replies } from './observed.js';
import { harmless, initializeParams } from './peer.js';
import { plainMethod } from './probes-base.js';
import type { McpSurface } from './surface.js';

const FOREIGN = 'https://attacker.example';
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;
/** The status of a handshake that opens a WebSocket. */
const OPENED = 101;
const OPEN = 'the server needs no token';

/** The answer to a first request without credentials. */
export const anonymous = (surface: McpSurface): Promise<Reply> => surface.once('anonymous', () => first(surface, {}));

function first({ peer, modern }: McpSurface, headers: Record<string, string>): Promise<Reply> {
  const options = { credentials: false, headers: { ...headers, 'Mcp-Session-Id': undefined } };
  if (modern) return peer.call('server/discover', {}, options);
  return peer.call('initialize', initializeParams(peer.revision.date), options);
}

const fromForeignSite = (surface: McpSurface): Promise<Reply> =>
  surface.once('foreign origin', () =>
    surface.peer.call(harmless(surface.peer.revision), undefined, { headers: { Origin: FOREIGN } }),
  );

/** A probe for servers that answer 401 without a token. */
const ifLocked =
  (judge: (refused: Reply, surface: McpSurface) => Verdict | Promise<Verdict>): Probe =>
  async (surface) => {
    const reply = await anonymous(surface);
    return reply.status === 401 ? judge(reply, surface) : skip(OPEN);
  };

/** The challenges of a refusal, which may be in several headers. */
const challengeOf = ({ headers }: Reply): string =>
  headers.filter((_, i) => headers[i - 1] === 'www-authenticate' && i % 2 === 1).join(', ');

const METADATA = /resource_metadata\s*=\s*"?([^",\s]+)/i;

/** The resource metadata: at the address of the challenge, or at the well-known addresses. */
function metadata(surface: McpSurface, refused: Reply): Promise<Reply | undefined> {
  return surface.once('resource metadata', async () => {
    const http = surface.peer.http!;
    const { origin, pathname } = http.url;
    const named = METADATA.exec(challengeOf(refused))?.[1];
    const known = '/.well-known/oauth-protected-resource';
    const addresses = [named, `${origin}${known}${pathname === '/' ? '' : pathname}`, `${origin}${known}`];
    let last: Reply | undefined;
    for (const address of addresses) {
      // A server may name any address, so an address at another host is not fetched.
      if (address === undefined || !URL.canParse(address) || new URL(address).origin !== origin) continue;
      last = await http.send({ method: 'GET', url: new URL(address), credentials: false });
      if (last.status === 200 && isObject(last.messages[0])) return last;
    }
    return last;
  });
}

export const SECURITY_PROBES: Readonly<Record<string, Probe>> = {
  origin: async (surface) => {
    const reply = await fromForeignSite(surface);
    const exact = surface.modern || surface.peer.revision.primingEvents;
    const right = exact ? reply.status === 403 : isRefused(reply);
    return expect(right, `a request of ${FOREIGN} got the status ${reply.status ?? reply.failure}`, reply);
  },
  sseOrigin: async ({ peer }) => {
    const headers = { Accept: 'text/event-stream', Origin: FOREIGN };
    const reply = await peer.http!.send({ method: 'GET', headers, headOnly: true });
    return expect(isRefused(reply), `a stream for ${FOREIGN} got the status ${reply.status}`, reply);
  },
  sseHost: async ({ peer }) => {
    if (!LOOPBACK.test(peer.http!.url.hostname)) return skip('the server is not on a loopback address');
    const headers = { Accept: 'text/event-stream', Host: 'attacker.example' };
    const reply = await peer.http!.send({ method: 'GET', headers, headOnly: true });
    return expect(isRefused(reply), `a stream for attacker.example got the status ${reply.status}`, reply);
  },
  webSocketOrigin: async ({ peer }) => {
    const reply = await peer.dialer!.attempt([['Origin', FOREIGN]]);
    return expect(reply.status !== OPENED, `a WebSocket for ${FOREIGN} was opened`, reply);
  },
  webSocketHost: async ({ peer }) => {
    const { hostname } = peer.dialer!.url;
    if (!LOOPBACK.test(hostname)) return skip('the server is not on a loopback address');
    const reply = await peer.dialer!.attempt([['Host', 'attacker.example']]);
    return expect(reply.status !== OPENED, 'a WebSocket for attacker.example was opened', reply);
  },
  host: async (surface) => {
    if (!LOOPBACK.test(surface.peer.http!.url.hostname)) return skip('the server is not on a loopback address');
    const reply = await surface.peer.call(harmless(surface.peer.revision), undefined, {
      headers: { Host: 'attacker.example' },
    });
    return expect(isRefused(reply), `a request for attacker.example got the status ${reply.status}`, reply);
  },
  everyRequestAuthenticated: ifLocked(async (_, surface) => {
    if (!surface.options.credentials) return skip('no credential was given');
    const reply = await surface.peer.call(plainMethod(surface), {}, { credentials: false });
    return expect(reply.status === 401, `a request without the token got the status ${reply.status}`, reply);
  }),
  missingToken: async (surface) => {
    const reply = await anonymous(surface);
    if (reply.result !== undefined) return skip(OPEN);
    // The connection was opened without a token, so this request is refused for another reason.
    if (!surface.options.credentials && surface.peer.opening.result !== undefined) return skip(OPEN);
    return expect(reply.status === 401, `a request without a token got the status ${reply.status}`, reply);
  },
  /** Like `missingToken`, but a server without authorization fails. */
  tokenRequired: async (surface) => {
    const reply = await anonymous(surface);
    if (reply.status === undefined) return skip(`a request without a token has no answer: ${reply.failure}`);
    const said = reply.result === undefined ? `got the status ${reply.status}` : 'was served';
    return expect(reply.status === 401, `a request without a token ${said}`, reply);
  },
  invalidToken: ifLocked(async (_, surface) => {
    const reply = await first(surface, { Authorization: 'Bearer parley-invalid-token-0123456789' });
    return expect(reply.status === 401, `an invalid token got the status ${reply.status}`, reply);
  }),
  malformedToken: ifLocked(async (_, surface) => {
    const reply = await first(surface, { Authorization: 'Bearer' });
    return expect(
      reply.status === 400 || reply.status === 401,
      `a malformed Authorization header got the status ${reply.status}`,
      reply,
    );
  }),
  challenge: ifLocked((refused) =>
    expect(METADATA.test(challengeOf(refused)), 'WWW-Authenticate names no resource metadata', refused),
  ),
  resourceMetadata: ifLocked(async (refused, surface) => {
    const reply = await metadata(surface, refused);
    const document = asObject(reply?.messages[0]);
    const servers = asList(document['authorization_servers']);
    const named = METADATA.exec(challengeOf(refused))?.[1] ?? '';
    const elsewhere = URL.canParse(named) && new URL(named).origin !== surface.peer.http!.url.origin;
    if (reply?.status !== 200 && elsewhere) return skip('the metadata is at another host, which is not asked');
    return expect(
      reply?.status === 200 && servers.length > 0,
      'no authorization server is published',
      reply ?? refused,
    );
  }),
  challengeScope: ifLocked((refused) =>
    expect(/scope=/i.test(challengeOf(refused)), 'the challenge has no scope', refused),
  ),
  noOfflineAccess: ifLocked(async (refused, surface) => {
    const reply = await metadata(surface, refused);
    const scopes = asList((reply?.messages[0] as Json | undefined)?.['scopes_supported']);
    const found = scopes.includes('offline_access') || challengeOf(refused).includes('offline_access');
    return expect(!found, 'offline_access is named', reply ?? refused);
  }),
  https: ({ peer }) => {
    const { protocol, hostname } = (peer.dialer ?? peer.http!).url;
    if (LOOPBACK.test(hostname)) return skip('the server is on a loopback address');
    return expect(/^(https|wss):$/.test(protocol), `the server is reached over ${protocol.slice(0, -1)}`, peer.opening);
  },
  corsCredentials: async (surface) => {
    const reply = await fromForeignSite(surface);
    const allowed = headerOf(reply.headers, 'access-control-allow-origin');
    const credentials = headerOf(reply.headers, 'access-control-allow-credentials') === 'true';
    if (allowed === FOREIGN && credentials) return fail('any web site may use the credentials of a user', reply);
    return PASS;
  },
};

export const SECURITY_OBSERVATIONS: Readonly<Record<string, Probe>> = {
  noStackTraces: replies(
    ({ error }) => error !== undefined,
    ({ error }) => (disclosesInside(error) ? 'an error shows a stack trace or a path of the server' : undefined),
    'no error was sent',
  ),
};
