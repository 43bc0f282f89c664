/** Agents with a fixed card and health. They answer every message with their name. */

import type { Agent, AgentFacts, AgentHealth, Events } from '../../src/core/a2a/agent.js';
import { Cards, type CardsOptions } from '../../src/core/a2a/cards/published-cards.js';
import type { Directory } from '../../src/core/a2a/routing/agent-directory.js';
import { type Admission, OpenAdmission } from '../../src/core/admission.js';
import { type Caller, principalOf } from '../../src/core/caller.js';
import type { AgentCard } from '../../src/protocol/a2a/model.js';
import { ProtocolError } from '../../src/protocol/errors.js';
import { NEWEST } from '../../src/protocol/mcp/revisions/index.js';

export const callerNamed = (name: string): Caller => ({
  principal: principalOf({ subject: name }),
  revision: NEWEST,
  capabilities: {},
  clientInfo: undefined,
  session: undefined,
});

export const cardOf = (name: string, more: Partial<AgentCard> = {}): AgentCard => ({
  name,
  description: `The ${name} agent`,
  supportedInterfaces: [{ url: 'http://10.1.2.3:9999/internal', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
  version: '2.1.0',
  capabilities: { streaming: false },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [{ id: 'talk', name: 'Talk', description: 'Talks', tags: ['chat'] }],
  ...more,
});

export class StaticAgent implements Agent {
  status: AgentHealth['status'] = 'up';

  constructor(
    readonly name: string,
    public card: AgentCard | undefined,
    private readonly verdict: AgentFacts['original']['signature'] = 'unsigned',
  ) {}

  known(): AgentFacts | undefined {
    return (
      this.card && {
        card: this.card,
        original: { text: JSON.stringify(this.card), signature: this.verdict },
        can: { stream: true, push: false, subscribe: true },
      }
    );
  }

  async facts(): Promise<AgentFacts> {
    const known = this.known();
    if (!known) throw new ProtocolError('upstream_unavailable', `Agent "${this.name}" cannot be reached`);
    return known;
  }

  onChanged(): () => void {
    return () => {};
  }

  async send(): ReturnType<Agent['send']> {
    return { value: { message: { messageId: 'm', role: 'ROLE_AGENT', parts: [{ text: this.name }] } } };
  }

  async stream(): Promise<Events> {
    throw new ProtocolError('unsupported_operation', 'no streams');
  }

  getTask = async (): Promise<never> => this.none();
  cancelTask = async (): Promise<never> => this.none();
  subscribe = async (): Promise<never> => this.none();
  setCallback = async (): Promise<void> => {};
  health = (): AgentHealth => ({ status: this.status });
  close = async (): Promise<void> => {};

  private none(): never {
    throw new ProtocolError('task_not_found', 'no tasks');
  }
}

export function directoryOf(...agents: Agent[]): Directory {
  const known = new Map(agents.map((agent) => [agent.name, agent]));
  return { get: (name) => known.get(name), names: () => [...known.keys()], onChanged: () => () => {} };
}

/** Each caller sees the agents listed for it. `''` stands for all other callers. */
export const showing = (seen: Readonly<Record<string, readonly string[]>>): Admission => ({
  sees: ({ principal }, { name }) => (seen[principal.key] ?? []).includes(name),
  admit: () => {},
});

export const cardsOf = (agents: Agent[], more: Partial<CardsOptions> = {}): Cards =>
  new Cards({
    agents: directoryOf(...agents),
    admission: new OpenAdmission(() => true),
    base: () => 'https://gw.example.com/parley',
    grpc: () => undefined,
    identified: false,
    push: true,
    routingAgent: { name: 'Parley', description: 'The gateway', version: '0.1.0' },
    patience: 50,
    ...more,
  });
