/**
 * Cards with any content survive the round trip through every older version, except for the members in the loss
 * register.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../../jsonrpc/raw.js';
import { dialect, hybridCard } from '../../index.js';
import type { AgentCard } from '../../model.js';

const name = fc.string({ minLength: 1, maxLength: 10 });
const url = fc.webUrl();
const scopes = fc.dictionary(fc.stringMatching(/^[a-z]{1,6}$/), name, { minKeys: 1, maxKeys: 2 });
const flow = fc.oneof(
  fc.record({ clientCredentials: fc.record({ tokenUrl: url, scopes }) }),
  fc.record({ authorizationCode: fc.record({ authorizationUrl: url, tokenUrl: url, scopes, refreshUrl: url }) }),
  fc.record({ implicit: fc.record({ authorizationUrl: url, scopes }) }),
  fc.record({ password: fc.record({ tokenUrl: url, scopes }) }),
);
const scheme: fc.Arbitrary<JsonValue> = fc.oneof(
  fc.record({ apiKeySecurityScheme: fc.record({ location: fc.constantFrom('header', 'query', 'cookie'), name }) }),
  fc.record({ httpAuthSecurityScheme: fc.record({ scheme: name, description: name }) }),
  fc.record({ oauth2SecurityScheme: fc.record({ flows: flow }) }),
  fc.record({ openIdConnectSecurityScheme: fc.record({ openIdConnectUrl: url }) }),
) as fc.Arbitrary<JsonValue>;
const key = fc.stringMatching(/^[a-z]{2,6}$/);

const card: fc.Arbitrary<AgentCard> = fc
  .dictionary(key, scheme, { minKeys: 1, maxKeys: 4 })
  .chain((securitySchemes) => {
    const one = fc.constantFrom(...Object.keys(securitySchemes));
    const requirement = fc.dictionary(one, fc.array(name, { maxLength: 2 }), { minKeys: 1 }).map((schemes) => ({
      schemes: Object.fromEntries(Object.entries(schemes).map(([each, list]) => [each, { list }])),
    }));
    const requirements = fc.uniqueArray(requirement, {
      minLength: 1,
      maxLength: 3,
      selector: (each) => JSON.stringify(each),
    });
    const skill = fc.record({
      id: name,
      name,
      description: name,
      tags: fc.array(name, { maxLength: 2 }),
      examples: fc.array(name, { minLength: 1, maxLength: 2 }),
    });
    return fc.record({
      name,
      description: name,
      version: name,
      supportedInterfaces: fc.uniqueArray(
        fc.record({
          url,
          protocolBinding: fc.constantFrom('JSONRPC', 'HTTP+JSON', 'GRPC'),
          protocolVersion: fc.constant('0.3'),
        }),
        { minLength: 1, maxLength: 3, selector: (each) => `${each.protocolBinding} ${each.url}` },
      ),
      provider: fc.record({ organization: name, url }),
      documentationUrl: url,
      capabilities: fc.record({
        streaming: fc.boolean(),
        pushNotifications: fc.boolean(),
        extendedAgentCard: fc.constant(true),
        extensions: fc.array(fc.record({ uri: url, required: fc.boolean() }), { minLength: 1, maxLength: 2 }),
      }),
      defaultInputModes: fc.array(name, { minLength: 1, maxLength: 2 }),
      defaultOutputModes: fc.array(name, { minLength: 1, maxLength: 2 }),
      skills: fc.array(skill, { maxLength: 2 }),
      securitySchemes: fc.constant(securitySchemes as JsonObject),
      securityRequirements: requirements as unknown as fc.Arbitrary<JsonObject[]>,
    });
  });

const wire = (value: JsonValue): JsonObject => JSON.parse(JSON.stringify(value)) as JsonObject;
const runs = { numRuns: 100 };

describe('a card', () => {
  it('1.0 -> 0.3 -> 1.0', () => {
    fc.assert(
      fc.property(card, (given) => {
        expect(dialect('0.3').readCard(wire(dialect('0.3').writeCard(given)))).toEqual(wire(given as JsonObject));
      }),
      runs,
    );
  });

  it('1.0 -> 0.3-proto -> 1.0', () => {
    const proto = dialect('0.3-proto');
    fc.assert(
      fc.property(card, (given) => {
        const back = proto.readResult('GetExtendedAgentCard', wire(proto.writeResult('GetExtendedAgentCard', given)));
        expect(back).toEqual(wire(given as JsonObject));
      }),
      runs,
    );
  });

  it('1.0 -> 0.2 -> 1.0, whose interfaces become 0.2', () => {
    fc.assert(
      fc.property(card, (given) => {
        const back = dialect('0.2').readCard(wire(dialect('0.2').writeCard(given)));
        const supportedInterfaces = given.supportedInterfaces.map((each) => ({ ...each, protocolVersion: '0.2' }));
        expect(back).toEqual(wire({ ...given, supportedInterfaces } as JsonObject));
      }),
      runs,
    );
  });

  it('G-14: 1.0 -> hybrid -> 1.0', () => {
    fc.assert(
      fc.property(card, (given) => {
        expect(dialect('1.0').readCard(wire(hybridCard(given)))).toEqual(wire(given as JsonObject));
      }),
      runs,
    );
  });
});
