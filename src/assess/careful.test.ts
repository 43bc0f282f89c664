/** Without `active`, nothing is called that may change something, and no message is sent to an agent. */
import { expect, it } from 'vitest';
import { type AgentBinding, AgentFixture, type AgentVersion } from '../../test/fixtures/assess/a2a-agent.js';
import { assessFixture } from '../../test/fixtures/assess/assess-fixture.js';
import { inProcess } from '../../test/fixtures/assess/in-process.js';
import type { Fault, Json } from '../../test/fixtures/assess/mcp-server.js';
import { assess } from './assess.js';
import { profileOf } from './profiles.js';

const HINTS: readonly unknown[] = [
  undefined,
  {},
  { readOnlyHint: false },
  { readOnlyHint: 'true' },
  { destructiveHint: false, idempotentHint: true },
];

/** Counts the calls of tools by name. With `hints`, every tool has these annotations. */
function counting(called: Map<string, number>, hints?: { readonly value: unknown }): Fault {
  return {
    row: '',
    message: (out, request) => {
      if (request['method'] === 'tools/call') {
        const name = String((request['params'] as Json | undefined)?.['name']);
        called.set(name, (called.get(name) ?? 0) + 1);
      }
      for (const { result } of out)
        for (const tool of ((result as Json | undefined)?.['tools'] ?? []) as Json[])
          if (hints !== undefined) tool['annotations'] = hints.value;
      return out;
    },
  };
}

const PLACES = ['A/sse', 'A/stdio', 'B/http', 'C/http', 'D/http', 'D/stdio', 'E/http', 'E/stdio'];

for (const place of PLACES)
  it(`calls no tool of ${place} that does not declare itself read-only`, async () => {
    const [letter = '', transport = ''] = place.split('/');
    for (const value of HINTS) {
      const called = new Map<string, number>();
      const report = await assessFixture(letter, transport, counting(called, { value }), {}, { active: false });
      expect(report.sections).toHaveLength(1);
      // The name that no tool has shows how the server answers for an unknown tool.
      expect([...called.keys()].filter((name) => !name.startsWith('parley-'))).toEqual([]);
      const allowed = new Map<string, number>();
      await assessFixture(letter, transport, counting(allowed, { value }), {}, { active: true });
      expect([...allowed.keys()].filter((name) => !name.startsWith('parley-')).length).toBeGreaterThan(0);
    }
  }, 60_000);

const AGENTS: readonly (readonly [AgentVersion, AgentBinding])[] = [
  ['1.0', 'JSONRPC'],
  ['1.0', 'HTTP+JSON'],
  ['1.0', 'GRPC'],
  ['0.3', 'JSONRPC'],
  ['0.3', 'GRPC'],
  ['0.2', 'JSONRPC'],
  ['0.1', 'JSONRPC'],
];

for (const [version, binding] of AGENTS)
  it(`sends no message to an agent of ${version} over ${binding}, and changes only tasks that nobody has`, async () => {
    for (const pushNotifications of [true, false]) {
      const changes: string[] = [];
      const agent = new AgentFixture(version, binding, {
        row: '',
        capabilities: { streaming: true, pushNotifications },
        outcome: (outcome, operation, params) => {
          if (['get', 'list', 'extendedCard', 'getPush', 'listPush', 'subscribe'].includes(operation)) return outcome;
          const unknown = JSON.stringify(params).includes('parley-no-such-task');
          if (!unknown || 'result' in outcome) changes.push(`${operation} ${JSON.stringify(params)}`);
          return outcome;
        },
      });
      const report = await assess({
        tool: 'test',
        profile: profileOf('standard')!,
        pace: { interval: 0, answer: 60, total: 20_000 },
        target: { kind: 'url', url: new URL('http://localhost/agent') },
        client: inProcess((call) => agent.handle(call)),
        grpc: () => agent.dial(),
      });
      expect(report.sections).toHaveLength(1);
      expect(changes).toEqual([]);
    }
  });
