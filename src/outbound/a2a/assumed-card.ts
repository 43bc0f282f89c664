import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { baseOf } from './card-discovery.js';
import { BINDINGS, type Choice } from './interface-choice.js';

/** Builds a card for an agent that serves no card. The configuration must contain the agent's version and binding. */
export function assumedCard(name: string, { url, version, binding }: Choice): JsonObject | undefined {
  if (version === 'auto' || binding === 'auto') return undefined;
  return {
    name,
    description: '',
    version: '',
    supportedInterfaces: [{ url: baseOf(url), protocolBinding: BINDINGS[binding], protocolVersion: version }],
    capabilities: {},
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [],
  };
}
