import { isObject, type JsonObject, type JsonValue } from '../../../jsonrpc/raw.js';
import type { AgentCapabilities, AgentCard, AgentSkill } from '../../model.js';
import { camel, Unreadable } from '../tolerant-readers.js';
import { listedInterfaces } from './interfaces.js';
import { readSchemeNames, readSecurity, type Security } from './security.js';

const text = (value: JsonValue | undefined, otherwise = ''): string =>
  typeof value === 'string' ? value : typeof value === 'number' ? String(value) : otherwise;
const texts = (value: JsonValue | undefined): string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];

/** Members of 0.x that duplicate members of the model. */
const OLD_MEMBERS: ReadonlySet<string> = new Set([
  ...['url', 'preferredTransport', 'additionalInterfaces', 'protocolVersion', 'authentication', 'security'],
  ...['supportsAuthenticatedExtendedCard', 'securitySchemes', 'securityRequirements', 'provider', 'signatures'],
]);

const others = (card: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(card).filter(([name]) => !OLD_MEMBERS.has(name)));

/**
 * Reads a card of any version, or a hybrid card, into the 1.0 model. Missing members that 1.0 requires become empty
 * (C-16).
 */
export function readCard(wire: JsonObject): AgentCard {
  const given = camel(wire);
  const { securitySchemes, securityRequirements, security, authentication } = given;
  const { capabilities, skills, provider, signatures, supportsAuthenticatedExtendedCard: extended } = given;
  const name = text(given['name']);
  if (name === '') throw new Unreadable('card.name must be a non-empty string');
  const guard = readSecurity(securitySchemes);
  const names =
    securitySchemes === undefined && isObject(authentication) ? readSchemeNames(authentication['schemes']) : undefined;
  const schemes = guard.schemes ?? names?.schemes;
  const required = guard.requirements(securityRequirements ?? security) ?? names?.requirements;
  return {
    ...others(given),
    name,
    description: text(given['description']),
    supportedInterfaces: listedInterfaces(given),
    version: text(given['version']),
    capabilities: readCapabilities(capabilities, extended),
    // 0.1 omits the modes and means text.
    defaultInputModes: Array.isArray(given['defaultInputModes']) ? texts(given['defaultInputModes']) : ['text'],
    defaultOutputModes: Array.isArray(given['defaultOutputModes']) ? texts(given['defaultOutputModes']) : ['text'],
    skills: (Array.isArray(skills) ? skills : []).filter(isObject).map((skill) => readSkill(skill, guard)),
    ...(isObject(provider) && {
      provider: { ...provider, organization: text(provider['organization']), url: text(provider['url']) },
    }),
    ...(schemes && Object.keys(schemes).length > 0 && { securitySchemes: schemes }),
    ...(required && required.length > 0 && { securityRequirements: required }),
    ...(Array.isArray(signatures) &&
      signatures.length > 0 && { signatures: signatures.filter(isObject) as AgentCard['signatures'] & object }),
  };
}

function readCapabilities(wire: JsonValue | undefined, extended: JsonValue | undefined): AgentCapabilities {
  const { stateTransitionHistory: _history, extensions, ...rest } = isObject(wire) ? camel(wire) : {};
  return {
    ...rest,
    ...(Array.isArray(extensions) && { extensions: extensions.filter(isExtension) }),
    ...(extended === true && rest['extendedAgentCard'] === undefined && { extendedAgentCard: true }),
  };
}

const isExtension = (item: JsonValue): item is JsonObject & { uri: string } =>
  isObject(item) && typeof item['uri'] === 'string';

function readSkill(wire: JsonObject, guard: Security): AgentSkill {
  const { security, securityRequirements, tags, ...rest } = camel(wire);
  const required = guard.requirements(securityRequirements ?? security);
  return {
    ...rest,
    id: text(rest['id'], text(rest['name'])),
    name: text(rest['name'], text(rest['id'])),
    description: text(rest['description']),
    tags: texts(tags),
    ...(required && required.length > 0 && { securityRequirements: required }),
  };
}
