/**
 * The policy is asked again in every round of a call and after every reload; `approve` asks a person; dry runs only
 * log.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/protocol/jsonrpc/raw.js';
import { type Log, SILENT } from '../../src/telemetry/log.js';
import { BOB, modern, type PolicyWorld, RULES, startPolicyWorld } from './world.js';

const ASKABLE = { elicitation: { form: {} } };
const ALLOW_ALL = { policy: { rules: [{ name: 'all', when: 'true', effect: 'allow' }] } };
const DENY_ALL = { policy: { rules: [{ name: 'none', when: 'true', effect: 'deny' }] } };
const lines: { fields: Record<string, unknown>; message: string }[] = [];
const note = (fields: object, message: string): void => void lines.push({ fields: { ...fields }, message });
const LOG: Log = { ...SILENT, info: note, warn: note };

let world: PolicyWorld;
beforeAll(async () => {
  world = await startPolicyWorld({}, LOG);
});
afterAll(() => world.close());

const call = (name: string, more: JsonObject = {}, capabilities: JsonObject = {}) =>
  modern(world.gateway.url, 'tools/call', { name, arguments: {}, ...more }, { token: BOB, capabilities });
const resultOf = (text: string): JsonObject => (JSON.parse(text) as { result: JsonObject }).result;

describe('a reload', () => {
  test('takes effect at once for lists and calls, and a bad rule is an error with its name and column', async () => {
    expect((await call('secret__add')).text).toContain('Unknown tool');
    await world.reload(ALLOW_ALL);
    expect((await call('secret__add')).text).toContain('done by secret');
    await world.reload(DENY_ALL);
    expect((await call('open__add')).text).toContain('Unknown tool');
    const { text } = await modern(world.gateway.url, 'tools/list', {}, { token: BOB });
    expect(resultOf(text)['tools']).toEqual([]);
    const bad = { policy: { rules: [{ name: 'typo', when: 'tol == "x"', effect: 'allow' }] } };
    await expect(world.reload(bad)).rejects.toMatchObject({
      problems: expect.arrayContaining([
        expect.objectContaining({
          key: 'policy.rules[0].when',
          message: 'rule "typo": unknown variable: tol (column 1)',
        }),
      ]),
    });
    expect((await call('open__add')).text).toContain('Unknown tool');
    await world.reload({});
    expect((await call('open__add')).text).toContain('done by open');
  });
});

describe('arguments', () => {
  test('decide about a call of a visible tool, and the model gets the refusal as a result', async () => {
    await world.reload({
      policy: { rules: [{ name: 'small', when: 'server == "open" && args.n < 5', effect: 'allow' }] },
    });
    expect((await call('open__add', { arguments: { n: 1 } })).text).toContain('done by open');
    const before = world.contacts().length;
    for (const args of [{ n: 9 }, {}, { n: 'x' }]) {
      const { text } = await call('open__add', { arguments: args });
      expect(resultOf(text)).toMatchObject({
        isError: true,
        content: [{ text: 'The policy of this gateway does not allow this call' }],
      });
    }
    expect(world.contacts().length).toBe(before);
    expect(lines.some(({ message }) => message.includes('a policy rule failed and counted as no match'))).toBe(true);
  });
});

describe('approve', () => {
  const APPROVE = {
    policy: {
      rules: [
        { name: 'ask', when: 'tool == "add" && args.n > 5', effect: 'approve' },
        { name: 'open', when: 'server.startsWith("open")', effect: 'allow' },
        { name: 'agents', when: 'a2a.agent == "secretagent"', effect: 'approve' },
      ],
    },
  };

  const ask = async (): Promise<{ requestState: string; key: string }> => {
    const { text } = await call('open__add', { arguments: { n: 9 } }, ASKABLE);
    const result = resultOf(text);
    expect(result['resultType']).toBe('input_required');
    return { requestState: String(result['requestState']), key: Object.keys(result['inputRequests'] as object)[0]! };
  };
  const answer = ({ requestState, key }: { requestState: string; key: string }) =>
    call(
      'open__add',
      {
        ...{ arguments: { n: 9 }, requestState },
        inputResponses: { [key]: { action: 'accept', content: { approve: true } } },
      },
      ASKABLE,
    );

  test('asks the person for the calls that the rule matches, and runs the call after the answer', async () => {
    await world.reload(APPROVE);
    expect((await call('open__add', { arguments: { n: 1 } }, ASKABLE)).text).toContain('done by open');
    expect((await answer(await ask())).text).toContain('done by open');
    // The call lacks the argument of the condition, so the rule cannot decide. The gateway then asks for an approval.
    expect((await call('open__add', { arguments: {} }, ASKABLE)).text).toContain('input_required');
    expect((await call('open__add', { arguments: { n: 9 } })).text).toContain('needs a person');
  });

  test('is decided again in the second round', async () => {
    await world.reload(APPROVE);
    const asked = await ask();
    const before = world.contacts().length;
    await world.reload(DENY_ALL);
    expect((await answer(asked)).text).toContain('Unknown tool');
    expect(world.contacts().length).toBe(before);
  });

  test('refuses a matching call that has no way to ask a person', async () => {
    await world.reload(APPROVE);
    const before = world.hidden().length;
    const reply = await fetch(`${world.gateway.url}/a2a/secretagent`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': '1.0', authorization: `Bearer ${BOB}` },
      body: JSON.stringify({
        ...{ jsonrpc: '2.0', id: 1, method: 'SendMessage' },
        params: { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hi' }] } },
      }),
    });
    expect(await reply.text()).toContain("needs a person's approval");
    expect(world.hidden().length).toBe(before);
  });
});

describe('tasks', () => {
  const TASKS = { extensions: { 'io.modelcontextprotocol/tasks': {} } };

  test('of a caller that lost its rights look absent in every method', async () => {
    await world.reload({
      policy: { rules: [{ name: 'add', when: 'kind == "tool" && tool == "add"', effect: 'allow' }] },
    });
    const initialize = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } };
    let session: string | undefined;
    const send = async (method: string, params: object): Promise<string> => {
      const reply = await fetch(`${world.gateway.url}/mcp`, {
        method: 'POST',
        headers: {
          ...{ 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
          authorization: `Bearer ${BOB}`,
          ...(session !== undefined && { 'mcp-session-id': session, 'mcp-protocol-version': '2025-11-25' }),
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      });
      session = reply.headers.get('mcp-session-id') ?? session;
      return reply.text();
    };
    await send('initialize', initialize);
    const created = await send('tools/call', { name: 'open__add', arguments: {}, task: { ttl: 60_000 } });
    const taskId = /"taskId":"([^"]+)"/.exec(created)![1]!;
    expect(await send('tasks/get', { taskId })).toContain('"status"');
    expect(await send('tasks/result', { taskId })).toContain('done by open');
    expect(await send('tasks/list', {})).toContain(taskId);
    const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'wait' }] };
    const managed = async (path: string): Promise<unknown[]> => {
      const reply = await fetch(`${world.gateway.url}/api/v1/${path}`, { headers: { authorization: `Bearer ${BOB}` } });
      return ((await reply.json()) as { items: unknown[] }).items;
    };
    await world.reload({ policy: { rules: [{ name: 'all', when: 'true', effect: 'allow' }] } });
    await fetch(`${world.gateway.url}/a2a/openagent`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': '1.0', authorization: `Bearer ${BOB}` },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }),
    });
    expect([await managed('tasks'), await managed('agent-tasks')]).toEqual([[expect.anything()], [expect.anything()]]);
    await world.reload(DENY_ALL);
    expect([await managed('tasks'), await managed('agent-tasks')]).toEqual([[], []]);
    for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel'])
      expect(await send(method, { taskId }), method).toContain('Unknown task');
    expect(await send('tasks/list', {})).not.toContain(taskId);
    const { text } = await modern(world.gateway.url, 'tasks/get', { taskId }, { token: BOB, capabilities: TASKS });
    expect(text).toContain('Unknown task');
  });
});

describe('a dry run', () => {
  const dry = () => lines.filter(({ message }) => message.startsWith('dry run'));

  test('changes nothing, and logs once per rule the calls that the rule would deny', async () => {
    lines.length = 0;
    await world.reload({ policy: { mode: 'dry-run', rules: RULES } });
    for (let i = 0; i < 3; i++) expect((await call('secret__add')).text).toContain('done by secret');
    expect((await call('open__add')).text).toContain('done by open');
    expect(dry()).toEqual([
      expect.objectContaining({
        fields: expect.objectContaining({ caller: 'bob', server: 'secret', tool: 'add', now: 'allow', would: 'deny' }),
      }),
    ]);
  });

  test('compares proposed rules with the rules in effect', async () => {
    lines.length = 0;
    const proposed = [{ name: 'stricter', when: 'tool == "add"', effect: 'deny' }];
    await world.reload({ policy: { rules: RULES, proposed } });
    expect((await call('open__add')).text).toContain('done by open');
    expect((await call('secret__add')).text).toContain('Unknown tool');
    expect(dry().map(({ fields }) => fields)).toEqual([
      expect.objectContaining({ server: 'open', rule: 'stricter', now: 'allow', would: 'deny' }),
    ]);
  });
});
