import { AgentCard as SdkCard } from '@a2a-js/sdk';
import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../../jsonrpc/raw.js';
import { dialect, hybridCard, interfacesOf, legacyCard } from '../../index.js';
import type { AgentCard } from '../../model.js';

const flow = { tokenUrl: 'https://a.example/token', scopes: { read: 'reads' } };
const CARD: AgentCard = {
  name: 'Desk',
  description: 'Answers.',
  version: '1.2.3',
  supportedInterfaces: [
    { url: 'https://a.example/rpc', protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
    { url: 'https://a.example/rpc', protocolBinding: 'JSONRPC', protocolVersion: '0.3' },
    { url: 'https://a.example/rest', protocolBinding: 'HTTP+JSON', protocolVersion: '0.3' },
    { url: 'https://a.example/amqp', protocolBinding: 'https://bindings.example/amqp', protocolVersion: '0.3' },
  ],
  provider: { organization: 'A', url: 'https://a.example' },
  capabilities: { streaming: true, pushNotifications: false, extendedAgentCard: true },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  securitySchemes: {
    key: { apiKeySecurityScheme: { location: 'header', name: 'X-Key' } },
    bearer: { httpAuthSecurityScheme: { scheme: 'bearer', bearerFormat: 'JWT' } },
    machine: { oauth2SecurityScheme: { flows: { clientCredentials: flow } } },
    oidc: { openIdConnectSecurityScheme: { openIdConnectUrl: 'https://a.example/oidc' } },
    cert: { mtlsSecurityScheme: { description: 'ours' } },
  },
  securityRequirements: [
    { schemes: { key: { list: [] }, machine: { list: ['read'] } } },
    { schemes: { cert: { list: [] } } },
  ],
  skills: [
    { id: 's', name: 'S', description: 'd', tags: ['t'], securityRequirements: [{ schemes: { key: { list: [] } } }] },
  ],
};

const OLD: JsonObject = {
  protocolVersion: '0.3.0',
  name: 'Desk',
  description: 'Answers.',
  url: 'https://a.example/rpc',
  preferredTransport: 'JSONRPC',
  additionalInterfaces: [
    { url: 'https://a.example/rpc', transport: 'JSONRPC' },
    { url: 'https://a.example/rest', transport: 'HTTP+JSON' },
  ],
  version: '1.2.3',
  provider: { organization: 'A', url: 'https://a.example' },
  capabilities: { streaming: true, pushNotifications: false },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  securitySchemes: {
    key: { type: 'apiKey', in: 'header', name: 'X-Key' },
    bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
    machine: { type: 'oauth2', flows: { clientCredentials: flow } },
    oidc: { type: 'openIdConnect', openIdConnectUrl: 'https://a.example/oidc' },
    cert: { type: 'mutualTLS', description: 'ours' },
  },
  security: [{ key: [], machine: ['read'] }, { cert: [] }],
  skills: [{ id: 's', name: 'S', description: 'd', tags: ['t'], security: [{ key: [] }] }],
  supportsAuthenticatedExtendedCard: true,
};

describe('cards of 0.3', () => {
  it('S-5: have the exact expected form', () => {
    expect(dialect('0.3').writeCard(CARD)).toEqual(OLD);
  });

  it('are read into the model', () => {
    const interfaces = CARD.supportedInterfaces.slice(1, 3);
    expect(dialect('0.3').readCard(OLD)).toEqual({ ...CARD, supportedInterfaces: interfaces });
  });

  it('in proto form are read, and written as the extended card', () => {
    const wire = dialect('0.3-proto').writeResult('GetExtendedAgentCard', CARD) as JsonObject;
    expect(wire['securitySchemes']).toEqual(CARD.securitySchemes);
    expect(wire['security']).toEqual(CARD.securityRequirements);
    expect(dialect('0.3-proto').readCard(wire)).toEqual(dialect('0.3').readCard(OLD));
  });

  it('with several OAuth flows are split into alternatives for 1.0 and merged again', () => {
    const several: JsonObject = {
      ...OLD,
      securitySchemes: {
        login: {
          type: 'oauth2',
          flows: { authorizationCode: { ...flow, authorizationUrl: 'https://a.example/a' }, clientCredentials: flow },
        },
        key: { type: 'apiKey', in: 'query', name: 'k' },
      },
      security: [{ login: ['read'], key: [] }],
      skills: [],
    };
    const read = dialect('0.3').readCard(several);
    expect(Object.keys(read.securitySchemes ?? {})).toEqual(['login', 'login.clientCredentials', 'key']);
    expect(read.securityRequirements).toEqual([
      { schemes: { login: { list: ['read'] }, key: { list: [] } } },
      { schemes: { 'login.clientCredentials': { list: ['read'] }, key: { list: [] } } },
    ]);
    expect(dialect('0.3').writeCard(read)).toEqual(several);
  });
});

describe('cards of 0.2 and 0.1', () => {
  it('0.2 has neither mTLS nor security requirements on skills', () => {
    const wire = dialect('0.2').writeCard(CARD);
    expect(wire['protocolVersion']).toBe('0.2.6');
    expect(Object.keys(wire['securitySchemes'] as JsonObject)).toEqual(['key', 'bearer', 'machine', 'oidc']);
    expect(wire['security']).toEqual([{ key: [], machine: ['read'] }]);
    expect(wire['skills']).toEqual([{ id: 's', name: 'S', description: 'd', tags: ['t'] }]);
  });

  it('0.1 has one URL and the names of schemes', () => {
    expect(dialect('0.1').writeCard(CARD)).toEqual({
      name: 'Desk',
      description: 'Answers.',
      url: 'https://a.example/rpc',
      version: '1.2.3',
      provider: { organization: 'A', url: 'https://a.example' },
      capabilities: { streaming: true, pushNotifications: false, stateTransitionHistory: false },
      authentication: { schemes: ['ApiKey', 'Bearer', 'OAuth2', 'OpenIdConnect', 'MutualTLS'] },
      defaultInputModes: ['text/plain'],
      defaultOutputModes: ['text/plain'],
      skills: [{ id: 's', name: 'S', description: 'd', tags: ['t'] }],
    });
  });

  it('C-3: 0.1 is read with its schemes as alternatives', () => {
    const read = dialect('0.1').readCard({
      name: 'Old',
      url: 'https://o.example',
      version: '1',
      capabilities: { streaming: true, stateTransitionHistory: true },
      authentication: { schemes: ['Bearer', 'ApiKey'] },
      skills: [{ id: 's', name: 'S' }],
    });
    expect(read).toEqual({
      name: 'Old',
      description: '',
      version: '1',
      supportedInterfaces: [{ url: 'https://o.example', protocolBinding: 'JSONRPC', protocolVersion: '0.1' }],
      capabilities: { streaming: true },
      defaultInputModes: ['text'],
      defaultOutputModes: ['text'],
      skills: [{ id: 's', name: 'S', description: '', tags: [] }],
      securitySchemes: {
        Bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } },
        ApiKey: { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } },
      },
      securityRequirements: [{ schemes: { Bearer: { list: [] } } }, { schemes: { ApiKey: { list: [] } } }],
    });
  });
});

describe('C-16: tolerates faulty cards', () => {
  const read = (more: JsonObject) => dialect('1.0').readCard({ ...(CARD as JsonObject), ...more });

  it('with the internal classes of a2a-js', () => {
    const inside = {
      key: { scheme: { $case: 'apiKeySecurityScheme', value: { location: 'header', name: 'X-Key', description: '' } } },
      machine: {
        scheme: {
          $case: 'oauth2SecurityScheme',
          value: { flows: { flow: { $case: 'clientCredentials', value: flow } } },
        },
      },
    };
    expect(read({ securitySchemes: inside }).securitySchemes).toEqual({
      key: { apiKeySecurityScheme: { location: 'header', name: 'X-Key', description: '' } },
      machine: { oauth2SecurityScheme: { flows: { clientCredentials: flow } } },
    });
  });

  it('with the security schemes of the other version', () => {
    expect(read({ securitySchemes: OLD['securitySchemes'] }).securitySchemes).toEqual(CARD.securitySchemes);
    const crossed = { ...OLD, securitySchemes: CARD.securitySchemes as JsonValue };
    expect(dialect('0.3').readCard(crossed).securitySchemes).toEqual(CARD.securitySchemes);
  });

  it('with nulls, and without a description', () => {
    const odd = {
      description: null,
      skills: [{ id: 's', name: 'S', tags: null }, null],
      capabilities: null,
      provider: null,
    };
    expect(read(odd)).toMatchObject({
      description: '',
      capabilities: {},
      skills: [{ id: 's', name: 'S', description: '', tags: [] }],
    });
  });

  it('with unknown members', () => {
    expect(read({ later: { a: 1 } })).toMatchObject({ later: { a: 1 } });
    expect(dialect('0.3').writeCard(read({ later: 1 }))).toMatchObject({ later: 1 });
  });

  it('refuses a card without a name', () => {
    expect(() => read({ name: '' })).toThrow(expect.objectContaining({ reason: 'invalid_agent_response' }));
  });
});

describe('G-14: cards for readers of unknown version', () => {
  const hybrid = hybridCard(CARD);

  it('contain all members in both forms', () => {
    expect(hybrid).toMatchObject({
      url: 'https://a.example/rpc',
      preferredTransport: 'JSONRPC',
      protocolVersion: '0.3.0',
    });
    expect(hybrid['supportedInterfaces']).toEqual(CARD.supportedInterfaces);
    expect((hybrid['securitySchemes'] as JsonObject)['key']).toEqual({
      type: 'apiKey',
      in: 'header',
      name: 'X-Key',
      apiKeySecurityScheme: { location: 'header', name: 'X-Key' },
    });
    expect(hybrid).toMatchObject({ security: OLD['security'], securityRequirements: CARD.securityRequirements });
    expect(hybrid).toMatchObject({
      supportsAuthenticatedExtendedCard: true,
      capabilities: { extendedAgentCard: true },
    });
    expect((hybrid['skills'] as JsonObject[])[0]).toMatchObject({
      security: [{ key: [] }],
      securityRequirements: [{}],
    });
  });

  it('read as the original card', () => {
    expect(dialect('1.0').readCard(hybrid)).toEqual(CARD);
    expect(interfacesOf(hybrid)).toEqual(interfacesOf(CARD as JsonObject));
  });

  it('the official SDK reads them like the 1.0 card', () => {
    expect(SdkCard.toJSON(SdkCard.fromJSON(hybrid))).toEqual(SdkCard.toJSON(SdkCard.fromJSON(CARD)));
    const schemes = (SdkCard.toJSON(SdkCard.fromJSON(hybrid)) as JsonObject)['securitySchemes'];
    expect(schemes).toEqual(CARD.securitySchemes);
  });

  it('at agent.json have the form of 0.2 with the members of 0.1', () => {
    const url = 'https://a.example/a2a/desk/rpc';
    const card = legacyCard(CARD, { url });
    expect(card).toMatchObject({
      protocolVersion: '0.2.6',
      url,
      preferredTransport: 'JSONRPC',
      authentication: { schemes: ['ApiKey', 'Bearer', 'OAuth2', 'OpenIdConnect', 'MutualTLS'] },
      additionalInterfaces: [
        { url, transport: 'JSONRPC' },
        { url: 'https://a.example/rest', transport: 'HTTP+JSON' },
      ],
    });
    expect(card['signatures']).toBeUndefined();
  });
});
