import { canonicalizeAgentCard, AgentCard as SdkCard } from '@a2a-js/sdk';
import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../jsonrpc/raw.js';
import { canonicalForms, canonicalJson, cardPayloads } from './canonical-card.js';
import { hybridCard } from './index.js';
import type { AgentCard } from './model.js';

const CARD: AgentCard = {
  name: 'Desk',
  description: 'Answers.',
  version: '1',
  supportedInterfaces: [{ url: 'https://a.example', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
  capabilities: { streaming: false, extensions: [{ uri: 'urn:x', required: true, params: { b: 1, a: '' } }] },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [{ id: 's', name: 'S', description: 'd', tags: ['t'] }],
  securitySchemes: {
    login: {
      oauth2SecurityScheme: {
        flows: { clientCredentials: { tokenUrl: 'https://a.example/t', scopes: { read: 'r' } } },
      },
    },
  },
  securityRequirements: [{ schemes: { login: { list: ['read'] } } }],
};
const EMPTY: AgentCard = {
  ...CARD,
  description: '',
  skills: [],
  iconUrl: '',
  supportedInterfaces: [{ url: 'https://a.example', protocolBinding: 'JSONRPC', protocolVersion: '1.0', tenant: '' }],
};
/** The SDK's signing payload for the card as received, and for the card after the SDK has parsed it. */
const ofWire = (card: object): string => canonicalizeAgentCard(card as Parameters<typeof canonicalizeAgentCard>[0]);
const ofRead = (card: object): string => canonicalizeAgentCard(SdkCard.fromJSON(card));

describe('S-6: canonical cards', () => {
  it('RFC 8785: sorted by code units, numbers and strings as ECMAScript writes them', () => {
    const value: JsonValue = {
      '\u20ac': 1,
      '\r': 2,
      '\ufb33': 3,
      '1': 4,
      '\u{1f600}': 5,
      '\u0080': 6,
      ö: 7,
      n: [1e30, 4.5, 2e-3, -0],
    };
    expect(canonicalJson(value)).toBe(
      '{"\\r":2,"1":4,"n":[1e+30,4.5,0.002,0],"\u0080":6,"ö":7,"€":1,"\u{1f600}":5,"\ufb33":3}',
    );
  });

  it('a card without empty members has one payload, equal to the SDK’s', () => {
    const { securitySchemes: _schemes, ...plain } = { ...CARD, capabilities: { streaming: false } };
    expect(cardPayloads(plain as JsonObject)).toEqual([ofWire(plain)]);
    const signed = { ...plain, signatures: [{ protected: 'p', signature: 's' }] };
    expect(cardPayloads(signed as JsonObject)).toEqual([ofRead(plain)]);
  });

  it('the specification keeps empty members that are required or set, the SDK drops all of them', () => {
    const [exact, sdk] = cardPayloads(EMPTY as JsonObject);
    expect(sdk).toBe(ofWire(EMPTY));
    const kept = JSON.parse(exact as string) as JsonObject;
    expect(kept).toMatchObject({ description: '', skills: [], iconUrl: '', capabilities: { streaming: false } });
    expect((kept['supportedInterfaces'] as JsonObject[])[0]).not.toHaveProperty('tenant');
  });

  it('neither signs nor accepts a payload without the security schemes, which the SDK drops from a parsed card', () => {
    const { securitySchemes: _schemes, ...stripped } = CARD;
    expect(ofRead(CARD)).toBe(ofWire(stripped));
    expect(cardPayloads(CARD as JsonObject)).not.toContain(ofRead(CARD));
    expect(canonicalForms(CARD as JsonObject)).not.toContain(ofRead(CARD));
  });

  it('the SDK reads only the 1.0 half of a hybrid card, and computes one of the accepted payloads', () => {
    for (const card of [hybridCard(CARD), hybridCard(EMPTY)]) expect(cardPayloads(card)).toContain(ofWire(card));
  });

  it('C-7: accepts a signature over any form; an older card is not normalised', () => {
    expect(canonicalForms(EMPTY as JsonObject)).toHaveLength(3);
    expect(canonicalForms({ b: 1, a: '', signatures: [] })).toEqual(['{"a":"","b":1}', '{"b":1}']);
  });
});
