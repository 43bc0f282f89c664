import { isObject, type JsonObject } from '../../../jsonrpc/raw.js';
import type { AgentCard } from '../../model.js';
import { filled } from '../tolerant-readers.js';
import { oldFlows, opened } from './security.js';
import { writeOldCard } from './write.js';

/** The card as ProtoJSON of the 0.3 proto: the members of 0.3, with security schemes in the shape of 1.0. */
export function writeProtoCard(card: AgentCard): JsonObject {
  const {
    iconUrl: _icon,
    security: _security,
    securitySchemes: _schemes,
    skills: _skills,
    ...old
  } = writeOldCard(card, '0.3');
  const schemes = Object.entries(card.securitySchemes ?? {}).flatMap(([name, scheme]) => {
    const found = opened(scheme);
    if (!found) return [];
    const { flows, ...body } = found.body;
    return [[name, { [found.kind]: { ...body, ...(isObject(flows) && { flows: oldFlows(flows) }) } }]];
  });
  return {
    ...old,
    ...filled({ securitySchemes: Object.fromEntries(schemes), security: card.securityRequirements }),
    skills: card.skills.map(({ securityRequirements, ...skill }) => ({
      ...skill,
      ...filled({ security: securityRequirements }),
    })),
  };
}
