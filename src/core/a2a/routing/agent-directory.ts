import type { Agent } from '../agent.js';

/** The current agents, by their names at this gateway. */
export interface Directory {
  get(name: string): Agent | undefined;
  names(): readonly string[];
  /** Calls `listener` when an agent was added, was removed or changed its card. */
  onChanged(listener: () => void): () => void;
}

/** The agents of this gateway. An agent can be replaced by another of the same name. */
export class Agents implements Directory {
  private readonly agents = new Map<string, { readonly agent: Agent; readonly unwatch: () => void }>();
  private readonly listeners = new Set<() => void>();

  get(name: string): Agent | undefined {
    return this.agents.get(name)?.agent;
  }

  names(): readonly string[] {
    return [...this.agents.keys()];
  }

  onChanged(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Adds an agent. Returns the agent that it replaces. */
  put(agent: Agent): Agent | undefined {
    const before = this.agents.get(agent.name);
    before?.unwatch();
    this.agents.set(agent.name, { agent, unwatch: agent.onChanged(() => this.changed()) });
    this.changed();
    return before?.agent;
  }

  remove(name: string): Agent | undefined {
    const before = this.agents.get(name);
    before?.unwatch();
    this.agents.delete(name);
    this.changed();
    return before?.agent;
  }

  async close(): Promise<void> {
    await Promise.all([...this.agents.values()].map(({ agent }) => agent.close()));
  }

  private changed(): void {
    for (const listener of [...this.listeners]) listener();
  }
}
