/** Probes of the card, and of the version that a request names. */

import { grpcTarget } from '../../outbound/a2a/grpc-target.js';
import { headerOf } from '../../protocol/http/headers.js';
import { asList, asObject, isObject, isText, type Json, parseJson } from '../json.js';
import { expect, fail, PASS, skip } from '../requirement.js';
import { contentType } from '../wire/reply.js';
import { type A2aVersion, restRequest } from './operations.js';
import { errorInfo, requiredExtensions } from './peer.js';
import {
  type A2aProbe,
  capabilities,
  type Probes,
  refused,
  refusedMessage,
  said,
  sameAnswer,
  UNKNOWN,
  unknownTask,
  whenActive,
} from './probe.js';

const MODES = ['defaultInputModes', 'defaultOutputModes'];
const REQUIRED: Readonly<Record<A2aVersion, readonly string[]>> = {
  '1.0': ['name', 'description', 'version', 'supportedInterfaces', 'capabilities', ...MODES, 'skills'],
  '0.3': ['protocolVersion', 'name', 'description', 'url', 'version', 'capabilities', ...MODES, 'skills'],
  '0.2': ['name', 'description', 'url', 'version', 'capabilities', ...MODES, 'skills'],
  '0.1': ['name', 'url', 'version', 'capabilities', 'skills'],
};

/** The protected headers of the signatures of a card. */
const protectedHeaders = (card: Json): (Json | undefined)[] =>
  asList(card['signatures']).map((each) => {
    const text = asObject(each)['protected'];
    const header = isText(text) ? parseJson(Buffer.from(text, 'base64url').toString('utf8')) : undefined;
    return isObject(header) ? header : undefined;
  });

const place =
  (name: string): A2aProbe =>
  ({ peer: { cardReply } }) => {
    if (!cardReply.evidence.request.includes(name)) return fail('the card is at another place', cardReply);
    const right = /^application\/([a-z0-9]+\+)?json/.test(contentType(cardReply));
    return expect(right, 'the card is not application/json', cardReply);
  };

const EXTENSIONS = ['A2A-Extensions', 'X-A2A-Extensions'];
const UNKNOWN_EXTENSION = 'https://parley.example/unknown';
/** The version at the end of the URI of an extension, such as `/v1` or `/1.0`. */
const VERSIONED = /([/@]v?)(\d{1,4}(?:\.\d{1,4}){0,2})\/?$/;
const askingFor = (extension: string): Record<string, string> =>
  Object.fromEntries(EXTENSIONS.map((name) => [name, extension]));

export const CARD_PROBES: Probes = {
  cardPlace: place('agent-card.json'),
  oldCardPlace: place('/agent.json'),
  cardFields: ({ peer: { card, cardReply, version } }) => {
    const missing = REQUIRED[version].filter((key) => card[key] === undefined);
    return expect(missing.length === 0, `missing: ${missing.join(', ')}`, cardReply);
  },
  cardInterfaces: ({ peer: { card, cardReply } }) => {
    const wrong = asList(card['supportedInterfaces'])
      .map(asObject)
      .find((each) => !isText(each['url']) || !isText(each['protocolBinding']) || !isText(each['protocolVersion']));
    return expect(wrong === undefined, `an interface is incomplete: ${JSON.stringify(wrong)}`, cardReply);
  },
  cardSkills: ({ peer: { card, cardReply, version } }) => {
    const texts = version === '0.1' ? ['id', 'name'] : ['id', 'name', 'description'];
    const wrong = asList(card['skills'])
      .map(asObject)
      .find((each) => !texts.every((key) => isText(each[key])) || (version !== '0.1' && !Array.isArray(each['tags'])));
    return expect(wrong === undefined, `a skill is incomplete: ${String(wrong?.['id'])}`, cardReply);
  },
  declaredBinding: async (surface) => {
    const { reply } = await unknownTask(surface);
    const answered = reply.status !== undefined && reply.messages.length > 0;
    return expect(answered, `the declared interface does not answer: ${reply.failure ?? reply.status}`, reply);
  },
  undeclaredBinding: async ({ peer, siblings }) => {
    if (siblings.some(({ binding }) => binding === 'HTTP+JSON')) return skip('HTTP+JSON is declared');
    const { path } = restRequest(peer.version, 'get', { id: UNKNOWN });
    const url = new URL(`${new URL(peer.url, peer.http.url).href.replace(/\/$/, '')}${path}`);
    const headers = { Accept: 'application/json', 'A2A-Version': peer.version };
    const reply = await peer.http.send({ method: 'GET', url, headers });
    const served = errorInfo(asObject(asObject(reply.messages[0])['error']))?.['reason'] === 'TASK_NOT_FOUND';
    return expect(!served, 'HTTP+JSON is served and not declared', reply);
  },
  cardCache: ({ peer: { cardReply } }) => {
    const right =
      /max-age=\d/.test(headerOf(cardReply.headers, 'cache-control') ?? '') &&
      headerOf(cardReply.headers, 'etag') !== undefined;
    return expect(right, 'Cache-Control with max-age, or ETag, is missing', cardReply);
  },
  cardNotModified: async ({ peer: { http, cardReply } }) => {
    const etag = headerOf(cardReply.headers, 'etag');
    if (etag === undefined) return skip('the card has no ETag');
    const url = new URL(/ (\S+)/.exec(cardReply.evidence.request)![1]!, http.url);
    const reply = await http.send({
      method: 'GET',
      url,
      headers: { Accept: 'application/json', 'If-None-Match': etag, 'A2A-Version': '1.0' },
    });
    return expect(reply.status === 304, `expected the status 304, got ${reply.status}`, reply);
  },
  preferredTransport: ({ peer: { card, cardReply } }) =>
    expect(isText(card['preferredTransport']), 'preferredTransport is missing', cardReply),
  repeatedInterface: ({ peer: { card, cardReply } }) => {
    const more = asList(card['additionalInterfaces']).map(asObject);
    if (more.length === 0) return skip('the card has no additionalInterfaces');
    const right = more.some(
      ({ url, transport }) => url === card['url'] && transport === (card['preferredTransport'] ?? 'JSONRPC'),
    );
    return expect(right, 'additionalInterfaces does not have url with preferredTransport', cardReply);
  },
  conflictingTransports: ({ peer: { card, cardReply } }) => {
    const byUrl = new Map<unknown, unknown>([[card['url'], card['preferredTransport'] ?? 'JSONRPC']]);
    for (const { url, transport } of asList(card['additionalInterfaces']).map(asObject)) {
      const kinds = [byUrl.get(url) ?? transport, transport];
      // HTTP+JSON has paths of its own, so it shares an address with JSON-RPC.
      if (kinds[0] !== kinds[1] && kinds.includes('GRPC')) return fail(`${String(url)} has two transports`, cardReply);
      byUrl.set(url, transport);
    }
    return PASS;
  },
  signatureHeaders: ({ peer: { card, cardReply } }) => {
    const headers = protectedHeaders(card);
    if (headers.length === 0) return skip('the card is not signed');
    const right = headers.every((each) => isText(each?.['alg']) && each['alg'] !== 'none' && isText(each['kid']));
    return expect(right, 'a signature has no alg or no kid in its protected header', cardReply);
  },
  signatureType: ({ peer: { card, cardReply } }) => {
    const headers = protectedHeaders(card);
    if (headers.length === 0) return skip('the card is not signed');
    return expect(
      headers.every((each) => each?.['typ'] === 'JOSE'),
      'the typ of a signature is not JOSE',
      cardReply,
    );
  },
  patchVersion: sameAnswer({ headers: { 'A2A-Version': '1.0.7' } }),
  queryVersion: sameAnswer({ headers: { 'A2A-Version': undefined }, query: 'A2A-Version=1.0' }),
  absentVersion: async ({ peer }) => {
    const answer = await peer.call('get', { id: UNKNOWN }, { headers: { 'A2A-Version': undefined }, version: '0.3' });
    const declared = JSON.stringify(peer.card['supportedInterfaces'] ?? '').includes('"0.3');
    // An agent without 0.3 answers that it does not know the version or the method.
    const codes = declared ? [-32001] : [-32001, -32009, -32601];
    return expect(codes.includes(answer.code ?? 0), `a request of 0.3 without a version ${said(answer)}`, answer);
  },
  unknownVersion: async ({ peer }) =>
    refused(await peer.call('get', { id: UNKNOWN }, { headers: { 'A2A-Version': '99.0' } }), -32009, peer),
  lowerCaseHeader: async ({ peer }) => {
    const headers = { 'A2A-Version': undefined, 'a2a-version': '99.0' };
    return refused(await peer.call('get', { id: UNKNOWN }, { headers }), -32009, peer);
  },
  unknownExtension: sameAnswer({ headers: askingFor(UNKNOWN_EXTENSION) }),
  echoedExtension: async ({ peer }) => {
    const { reply } = await peer.call('get', { id: UNKNOWN }, { headers: askingFor(UNKNOWN_EXTENSION) });
    const echoed = EXTENSIONS.some((name) => headerOf(reply.headers, name.toLowerCase())?.includes(UNKNOWN_EXTENSION));
    return expect(!echoed, 'an extension that the agent does not know is named as active', reply);
  },
  requiredExtension: whenActive(async ({ peer }) => {
    if (requiredExtensions(peer.card).length === 0) return skip('the card requires no extension');
    const answer = await peer.call('send', { body: peer.message() }, { headers: { 'A2A-Extensions': undefined } });
    return refusedMessage(answer, -32008, peer);
  }),
  otherExtensionVersion: async ({ peer }) => {
    const declared = asList(asObject(peer.card['capabilities'])['extensions']).map((each) => asObject(each)['uri']);
    const uri = declared.find((each): each is string => typeof each === 'string' && VERSIONED.test(each));
    if (uri === undefined) return skip('the card has no extension with a version in its URI');
    const other = uri.replace(
      VERSIONED,
      (_, mark: string, number: string) => `${mark}${Number.parseInt(number, 10) + 90}`,
    );
    const { reply } = await peer.call('get', { id: UNKNOWN }, { headers: askingFor(other) });
    const active = EXTENSIONS.flatMap((name) => (headerOf(reply.headers, name.toLowerCase()) ?? '').split(','));
    return expect(
      !active.some((each) => each.trim() === uri),
      'the active version of an extension is not the requested version',
      reply,
    );
  },
  grpcService: async (surface) => {
    const { grpc, reply } = await unknownTask(surface);
    const served = grpc !== 'UNIMPLEMENTED' && grpc !== 'UNAVAILABLE' && grpc !== 'DEADLINE_EXCEEDED';
    return expect(served, `the service of the version is not served: ${grpc}`, reply);
  },
  grpcTls: ({ peer }) => {
    const { host, secure } = grpcTarget(peer.url);
    if (/^(localhost|127\.|\[?::1)/.test(host)) return skip('the agent is on this machine');
    return expect(secure, 'the address has no TLS', peer.cardReply);
  },
  extendedCardOff: async (surface) => {
    const { peer } = surface;
    const offered = peer.modern
      ? capabilities(surface)['extendedAgentCard'] === true
      : peer.card['supportsAuthenticatedExtendedCard'] === true;
    if (offered) return skip('the agent has an extended card');
    const answer = await peer.call('extendedCard');
    // Before 1.0, agents without an extended card answer with either of the two errors.
    return refused(answer, !peer.modern && answer.code === -32007 ? -32007 : -32004, peer);
  },
  extendedCardGiven: async (surface) => {
    const { peer } = surface;
    if (capabilities(surface)['extendedAgentCard'] !== true) return skip('the agent has no extended card');
    const answer = await peer.call('extendedCard');
    const { status } = answer.reply;
    const denied = status === 401 || status === 403 || /^(UNAUTHENTICATED|PERMISSION_DENIED)$/.test(answer.grpc ?? '');
    if (denied) return skip('the credentials are not enough for the extended card');
    if (isText(answer.result?.['name'])) return PASS;
    return expect(answer.code === -32007, `the extended card that is declared ${said(answer)}`, answer);
  },
  extendedCardProtected: async (surface) => {
    const { peer } = surface;
    if (capabilities(surface)['extendedAgentCard'] !== true) return skip('the agent has no extended card');
    const answer = await peer.call('extendedCard', {}, { credentials: false });
    return expect(answer.result === undefined, 'the extended card is given without authentication', answer);
  },
};
