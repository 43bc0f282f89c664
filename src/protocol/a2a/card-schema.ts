/**
 * The members of a 1.0 card: their types come from the proto tables, their presence is listed here. Presence decides
 * whether a canonical card contains a member that holds its default (§8.4.1).
 */
import { type Field, fieldOf } from './proto/message-codec.js';
import { V1 } from './proto/schemas.js';

export interface Member extends Omit<Field, 'type' | 'number'> {
  /**
   * Required members are always written, optional members if they are set, plain members unless they hold the default.
   */
  readonly presence: 'required' | 'optional' | 'plain';
  /** The message that the member consists of; undefined for a scalar. */
  readonly message: string | undefined;
}

const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  AgentCard: [
    ...['name', 'description', 'supportedInterfaces', 'version', 'capabilities'],
    ...['defaultInputModes', 'defaultOutputModes', 'skills'],
  ],
  AgentInterface: ['url', 'protocolBinding', 'protocolVersion'],
  AgentProvider: ['url', 'organization'],
  AgentSkill: ['id', 'name', 'description', 'tags'],
  APIKeySecurityScheme: ['location', 'name'],
  HTTPAuthSecurityScheme: ['scheme'],
  OAuth2SecurityScheme: ['flows'],
  OpenIdConnectSecurityScheme: ['openIdConnectUrl'],
  AuthorizationCodeOAuthFlow: ['authorizationUrl', 'tokenUrl', 'scopes'],
  ClientCredentialsOAuthFlow: ['tokenUrl', 'scopes'],
  DeviceCodeOAuthFlow: ['deviceAuthorizationUrl', 'tokenUrl', 'scopes'],
};

const OPTIONAL: Readonly<Record<string, readonly string[]>> = {
  AgentCard: ['provider', 'documentationUrl', 'iconUrl'],
  AgentCapabilities: ['streaming', 'pushNotifications', 'extendedAgentCard'],
  AgentExtension: ['params'],
  SecurityScheme: [
    ...['apiKeySecurityScheme', 'httpAuthSecurityScheme', 'oauth2SecurityScheme'],
    ...['openIdConnectSecurityScheme', 'mtlsSecurityScheme'],
  ],
  OAuthFlows: ['authorizationCode', 'clientCredentials', 'implicit', 'password', 'deviceCode'],
};

const known = new Map<string, ReadonlyMap<string, Member>>();

/** The members of a message that a card consists of. */
export function cardMembers(message: string): ReadonlyMap<string, Member> {
  let members = known.get(message);
  if (members === undefined) {
    members = new Map(
      Object.entries(V1.messages[message] ?? {}).map(([name, text]) => [name, memberOf(message, name, text)]),
    );
    known.set(message, members);
  }
  return members;
}

function memberOf(message: string, name: string, text: string): Member {
  const { shape, type } = fieldOf(name, text);
  const listed = (names: Readonly<Record<string, readonly string[]>>): boolean =>
    names[message]?.includes(name) === true;
  const presence = listed(REQUIRED) ? 'required' : listed(OPTIONAL) ? 'optional' : 'plain';
  return { name, shape, presence, message: V1.messages[type] && type };
}
