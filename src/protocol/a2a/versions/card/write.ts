import type { JsonObject } from '../../../jsonrpc/raw.js';
import type { Version } from '../../dialect.js';
import type { AgentCard, AgentInterface, AgentSkill } from '../../model.js';
import { readVersion } from '../../version-detection.js';
import { filled } from '../tolerant-readers.js';
import { bindingOf } from './interfaces.js';
import { schemeNames, writeOldRequirements, writeOldSchemes } from './security.js';

export type CardStyle = '0.3' | '0.2' | '0.1';

/** The protocol version that a card of each style names. Absent for styles whose cards name no version. */
const PROTOCOL_VERSIONS: { readonly [S in CardStyle]?: string } = { '0.3': '0.3.0', '0.2': '0.2.6' };

/**
 * The versions whose interfaces readers of a style can use, the best first. If a card has none of these, all its
 * interfaces are listed.
 */
const READABLE: { readonly [S in CardStyle]: readonly Version[] } = {
  '0.3': ['0.3', '0.2'],
  '0.2': ['0.2', '0.3'],
  '0.1': ['0.1'],
};

/** The card in an old version's form. Signatures are left out: a change of form invalidates them. */
export function writeOldCard(card: AgentCard, style: CardStyle): JsonObject {
  const { name, description, version, defaultInputModes, defaultOutputModes, skills, provider } = card;
  const { supportedInterfaces, capabilities, securitySchemes, securityRequirements, signatures: _signatures } = card;
  const { documentationUrl, iconUrl, ...unknown } = rest(card);
  const { extendedAgentCard, extensions, streaming, pushNotifications, ...able } = capabilities;
  const interfaces = interfacesFor(style, supportedInterfaces);
  const first = interfaces[0];
  const common = {
    name,
    description,
    url: first?.url ?? '',
    version,
    ...filled({ provider, documentationUrl }),
    capabilities: { streaming: streaming === true, pushNotifications: pushNotifications === true },
    defaultInputModes,
    defaultOutputModes,
  };
  if (style === '0.1') {
    const schemes = schemeNames(securitySchemes);
    return {
      ...common,
      capabilities: { ...common.capabilities, stateTransitionHistory: false },
      ...(schemes.length > 0 && { authentication: { schemes } }),
      skills: skills.map((skill) => oldSkill(skill)),
    };
  }
  const modern = style === '0.3';
  const guard = writeOldSchemes(securitySchemes, { mtls: modern, metadataUrl: modern });
  const required = (list: JsonObject[] | undefined) => writeOldRequirements(list, guard.schemes, guard.merged);
  return {
    protocolVersion: PROTOCOL_VERSIONS[style],
    ...common,
    preferredTransport: first ? (bindingOf(first.protocolBinding) ?? 'JSONRPC') : 'JSONRPC',
    ...filled({
      additionalInterfaces: interfaces.map(({ url, protocolBinding }) => ({
        url,
        transport: bindingOf(protocolBinding) as string,
      })),
      iconUrl,
    }),
    capabilities: { ...able, ...common.capabilities, ...filled({ extensions }) },
    ...filled({ securitySchemes: guard.schemes, security: required(securityRequirements) }),
    skills: skills.map((skill) => ({
      ...oldSkill(skill),
      ...filled({ security: modern ? required(skill.securityRequirements) : undefined }),
    })),
    ...(extendedAgentCard === true && { supportsAuthenticatedExtendedCard: true }),
    ...unknown,
  };
}

function rest(card: AgentCard): JsonObject & { documentationUrl?: string; iconUrl?: string } {
  const {
    name: _name,
    description: _description,
    version: _version,
    defaultInputModes: _input,
    defaultOutputModes: _output,
    skills: _skills,
    provider: _provider,
    supportedInterfaces: _interfaces,
    capabilities: _capabilities,
    securitySchemes: _schemes,
    securityRequirements: _requirements,
    signatures: _signatures,
    ...others
  } = card;
  return others;
}

function oldSkill(skill: AgentSkill): JsonObject {
  const { securityRequirements: _requirements, examples, inputModes, outputModes, ...others } = skill;
  return { ...others, ...filled({ examples, inputModes, outputModes }) };
}

/** The interfaces that readers of a style can use, in the card's order. */
function interfacesFor(style: CardStyle, interfaces: readonly AgentInterface[]): AgentInterface[] {
  const known = interfaces.filter(
    ({ protocolBinding }) =>
      bindingOf(protocolBinding) && (style !== '0.1' || bindingOf(protocolBinding) === 'JSONRPC'),
  );
  for (const version of READABLE[style]) {
    const made = known.filter((each) => readVersion(each.protocolVersion) === version);
    if (made.length > 0) return made;
  }
  return known;
}
