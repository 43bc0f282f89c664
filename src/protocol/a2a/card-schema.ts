/**
 * Which members of a 1.0 card are required, optional or neither, by its proto: that decides what a canonical card says
 * of a member that holds its default (§8.4.1).
 */
interface Member {
  /** Required members are always there; optional ones where somebody set them; others where they are not the default. */
  readonly presence: 'required' | 'optional' | 'plain';
  readonly type: 'text' | 'flag' | 'struct' | 'texts' | 'textMap' | { readonly [K in 'one' | 'many' | 'map']?: string };
}
export type Members = Readonly<Record<string, Member>>;

const required = (type: Member['type']): Member => ({ presence: 'required', type });
const optional = (type: Member['type']): Member => ({ presence: 'optional', type });
const plain = (type: Member['type']): Member => ({ presence: 'plain', type });

const flow = (needed: readonly string[]): Members => ({
  ...Object.fromEntries(needed.map((name) => [name, required('text')])),
  refreshUrl: plain('text'),
  scopes: required('textMap'),
});
const looseFlow = (name: string): Members => ({
  [name]: plain('text'),
  refreshUrl: plain('text'),
  scopes: plain('textMap'),
});

export const CARD_SCHEMA: Readonly<Record<string, Members>> = {
  AgentCard: {
    name: required('text'),
    description: required('text'),
    supportedInterfaces: required({ many: 'AgentInterface' }),
    provider: optional({ one: 'AgentProvider' }),
    version: required('text'),
    documentationUrl: optional('text'),
    capabilities: required({ one: 'AgentCapabilities' }),
    securitySchemes: plain({ map: 'SecurityScheme' }),
    securityRequirements: plain({ many: 'SecurityRequirement' }),
    defaultInputModes: required('texts'),
    defaultOutputModes: required('texts'),
    skills: required({ many: 'AgentSkill' }),
    iconUrl: optional('text'),
  },
  AgentInterface: {
    url: required('text'),
    protocolBinding: required('text'),
    tenant: plain('text'),
    protocolVersion: required('text'),
  },
  AgentProvider: { url: required('text'), organization: required('text') },
  AgentCapabilities: {
    streaming: optional('flag'),
    pushNotifications: optional('flag'),
    extensions: plain({ many: 'AgentExtension' }),
    extendedAgentCard: optional('flag'),
  },
  AgentExtension: {
    uri: plain('text'),
    description: plain('text'),
    required: plain('flag'),
    params: optional('struct'),
  },
  AgentSkill: {
    id: required('text'),
    name: required('text'),
    description: required('text'),
    tags: required('texts'),
    examples: plain('texts'),
    inputModes: plain('texts'),
    outputModes: plain('texts'),
    securityRequirements: plain({ many: 'SecurityRequirement' }),
  },
  SecurityRequirement: { schemes: plain({ map: 'StringList' }) },
  StringList: { list: plain('texts') },
  SecurityScheme: {
    apiKeySecurityScheme: optional({ one: 'APIKeySecurityScheme' }),
    httpAuthSecurityScheme: optional({ one: 'HTTPAuthSecurityScheme' }),
    oauth2SecurityScheme: optional({ one: 'OAuth2SecurityScheme' }),
    openIdConnectSecurityScheme: optional({ one: 'OpenIdConnectSecurityScheme' }),
    mtlsSecurityScheme: optional({ one: 'MutualTlsSecurityScheme' }),
  },
  APIKeySecurityScheme: { description: plain('text'), location: required('text'), name: required('text') },
  HTTPAuthSecurityScheme: { description: plain('text'), scheme: required('text'), bearerFormat: plain('text') },
  OAuth2SecurityScheme: {
    description: plain('text'),
    flows: required({ one: 'OAuthFlows' }),
    oauth2MetadataUrl: plain('text'),
  },
  OpenIdConnectSecurityScheme: { description: plain('text'), openIdConnectUrl: required('text') },
  MutualTlsSecurityScheme: { description: plain('text') },
  OAuthFlows: {
    authorizationCode: optional({ one: 'AuthorizationCodeOAuthFlow' }),
    clientCredentials: optional({ one: 'ClientCredentialsOAuthFlow' }),
    implicit: optional({ one: 'ImplicitOAuthFlow' }),
    password: optional({ one: 'PasswordOAuthFlow' }),
    deviceCode: optional({ one: 'DeviceCodeOAuthFlow' }),
  },
  AuthorizationCodeOAuthFlow: { ...flow(['authorizationUrl', 'tokenUrl']), pkceRequired: plain('flag') },
  ClientCredentialsOAuthFlow: flow(['tokenUrl']),
  ImplicitOAuthFlow: looseFlow('authorizationUrl'),
  PasswordOAuthFlow: looseFlow('tokenUrl'),
  DeviceCodeOAuthFlow: flow(['deviceAuthorizationUrl', 'tokenUrl']),
};
