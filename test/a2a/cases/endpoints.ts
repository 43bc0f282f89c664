/** Cards, and requests that no SDK sends: plain HTTP requests, with one agent each. */

import { release } from '../../fixtures/a2a/behaviours.js';
import { assert, type Case, type Cell, mark } from '../case.js';
import { ADA } from '../testbed.js';

type Body = Readonly<Record<string, unknown>>;
interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: Body & {
    readonly result?: Body;
    readonly error?: Body & { readonly code?: number; readonly data?: Body[] };
  };
}

async function ask(url: string, init: RequestInit & { headers?: Record<string, string> } = {}): Promise<Answer> {
  const response = await fetch(url, { ...init, headers: { authorization: `Bearer ${ADA}`, ...init.headers } });
  const text = await response.text();
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = {};
  }
  return { status: response.status, headers: response.headers, text, body: body as Answer['body'] };
}

const post = (url: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> =>
  ask(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });

const v1 = (text: string): Body => ({ message: { messageId: mark(), role: 'ROLE_USER', parts: [{ text }] } });
const v03 = (text: string): Body => ({
  message: { kind: 'message', messageId: mark(), role: 'user', parts: [{ kind: 'text', text }] },
});
const rpc = (method: string, params: unknown, id: unknown = 7): Body => ({ jsonrpc: '2.0', id, method, params });
const base = ({ testbed, column }: Cell): string => testbed.base(column.name);
const first = (row: { version: string; binding: string }): boolean =>
  row.version === '1.0' && row.binding === 'jsonrpc';
const ONE = { 'a2a-version': '1.0' };

const endpoint = (name: string, ids: readonly string[], run: (cell: Cell) => Promise<void>, once = true): Case => ({
  name,
  ids,
  once,
  applies: first,
  run,
});

export const ENDPOINTS: readonly Case[] = [
  endpoint('requests with and without a version', ['S-10', 'S-11', 'S-12'], async (cell) => {
    const url = base(cell);
    const good: [Record<string, string>, string][] = [
      [{ 'a2a-version': '1.0' }, ''],
      [{ 'a2a-version': '1.0.1' }, ''],
      [{}, '?A2A-Version=1.0'],
      [{}, ''],
    ];
    for (const [headers, query] of good) {
      const { status, body } = await post(`${url}${query}`, rpc('SendMessage', v1('echo')), headers);
      assert.deepEqual(
        [status, Object.keys(body.result ?? {})],
        [200, ['task']],
        JSON.stringify([headers, query, body]),
      );
    }
    const old = await post(url, rpc('message/send', v03('echo')), { 'a2a-version': '' });
    assert.equal(old.body.result?.['kind'], 'task');
    const strange = await post(url, rpc('SendMessage', v1('echo')), { 'a2a-version': '9.9' });
    assert.deepEqual([strange.status, strange.body.error?.code], [200, -32009]);
    const rest = await post(`${url}/message:send`, v1('echo'), { 'a2a-version': '9.9' });
    assert.deepEqual([rest.status, (rest.body.error as { status?: string })?.status], [400, 'FAILED_PRECONDITION']);
  }),
  endpoint(
    'tasks/get without a version answers in the version that created the task',
    ['S-11', 'S-26'],
    async (cell) => {
      const url = base(cell);
      const made = (await post(url, rpc('SendMessage', v1('echo')), ONE)).body.result?.['task'] as { id: string };
      const read = await post(url, rpc('tasks/get', { id: made.id }));
      assert.equal(read.body.result?.['kind'], 'task', 'expected the 0.3 format for a task of a 1.0 client');
      const id = mark();
      const message = { role: 'user', parts: [{ type: 'text', text: 'echo' }] };
      const older = await post(url, rpc('tasks/send', { id, message }));
      assert.equal((older.body.result as { id?: string })?.id, id, older.text);
      const again = await post(url, rpc('tasks/get', { id }));
      assert.deepEqual([again.body.result?.['id'], again.body.result?.['kind']], [id, undefined]);
    },
  ),
  endpoint('invalid JSON-RPC', ['S-71', 'S-30'], async (cell) => {
    const url = base(cell);
    const code = async (body: unknown): Promise<unknown> => {
      const answer = await post(url, body, ONE);
      return [answer.body.error?.code, answer.body['id']];
    };
    assert.deepEqual(await code('{"jsonrpc":'), [-32700, null]);
    assert.deepEqual(await code([rpc('SendMessage', v1('echo'))]), [-32600, null]);
    assert.deepEqual(await code({ jsonrpc: '2.0', id: 'a', params: {} }), [-32600, 'a']);
    assert.deepEqual(await code(rpc('NoSuchMethod', {}, 'text')), [-32601, 'text']);
    assert.deepEqual(await code(rpc('SendMessage', {}, 12)), [-32602, 12]);
    assert.deepEqual(await code(rpc('GetTask', {}, 12)), [-32602, 12]);
  }),
  endpoint('an unknown agent is 404 at every endpoint', ['G-1'], async ({ testbed }) => {
    const url = testbed.base('nobody');
    const statuses = [
      (await ask(`${url}/.well-known/agent-card.json`)).status,
      (await post(url, rpc('SendMessage', v1('echo')), ONE)).status,
      (await post(`${url}/message:send`, v1('echo'), ONE)).status,
    ];
    assert.deepEqual(statuses, [404, 404, 404]);
  }),
  endpoint('the requested media type, both methods of subscribe, a trailing slash', ['S-74', 'G-27'], async (cell) => {
    const url = base(cell);
    const type = async (headers: Record<string, string>): Promise<string | null> =>
      (await post(`${url}/message:send`, v1('echo'), { ...ONE, ...headers })).headers.get('content-type');
    assert.match((await type({ accept: 'application/json' })) ?? '', /^application\/json/);
    assert.match((await type({ accept: 'application/a2a+json' })) ?? '', /^application\/a2a\+json/);
    assert.match((await type({ 'content-type': 'application/a2a+json' })) ?? '', /^application\/a2a\+json/);
    assert.equal((await post(`${url}/`, rpc('SendMessage', v1('echo')), ONE)).status, 200);
    for (const method of ['GET', 'POST']) {
      const word = mark();
      const held = { ...v1(`hold ${word}`), configuration: { returnImmediately: true } };
      const sent = await post(`${url}/message:send`, held, ONE);
      const { id } = sent.body['task'] as { id: string };
      const headers = { authorization: `Bearer ${ADA}`, ...ONE };
      const stream = await fetch(`${url}/tasks/${id}:subscribe`, { method, headers });
      release(word);
      const text = await stream.text();
      assert.match(stream.headers.get('content-type') ?? '', /^text\/event-stream/, `${method}: ${text}`);
      assert.match(text, /TASK_STATE_COMPLETED/);
    }
    const snake = { message: { message_id: mark(), role: 'ROLE_USER', parts: [{ text: 'echo' }] } };
    assert.equal((await post(`${url}/message:send`, snake, ONE)).status, 200, 'snake_case members');
    const sent = await post(`${url}/message:send`, v1('ask'), ONE);
    const canceled = await ask(`${url}/tasks/${(sent.body['task'] as { id: string }).id}:cancel`, {
      method: 'POST',
      headers: ONE,
    });
    assert.equal(canceled.status, 200, canceled.text);
  }),
  endpoint('0.3 over HTTP in both JSON dialects, webhooks in both forms', ['S-75', 'C-3'], async (cell) => {
    const url = `${base(cell)}/v1`;
    const proto = await post(`${url}/message:send`, {
      message: { messageId: mark(), role: 'ROLE_USER', content: [{ text: 'ask' }] },
      configuration: { blocking: true },
    });
    const task = proto.body['task'] as { id: string; status: { state: string } };
    assert.equal(task?.status.state, 'TASK_STATE_INPUT_REQUIRED', proto.text);
    const schema = await post(`${url}/message:send`, v03('echo'));
    const plain = (schema.body['task'] ?? schema.body) as { kind?: string; status?: { state: string } };
    assert.deepEqual([plain.kind, plain.status?.state], ['task', 'completed'], schema.text);
    const configs = `${url}/tasks/${task.id}/pushNotificationConfigs`;
    const flat = {
      name: `tasks/${task.id}/pushNotificationConfigs/a`,
      pushNotificationConfig: { id: 'a', url: 'https://example.org/a' },
    };
    const created = await post(configs, flat);
    assert.ok(created.status < 300, created.text);
    const nested = {
      parent: `tasks/${task.id}`,
      configId: 'b',
      config: { pushNotificationConfig: { id: 'b', url: 'https://example.org/b' } },
    };
    const other = await post(configs, nested);
    assert.ok(other.status < 300, other.text);
    const all = await ask(configs);
    assert.match(all.text, /example\.org\/a/);
    assert.match(all.text, /example\.org\/b/);
  }),
  endpoint('unknown members pass unchanged', ['S-31', 'G-26'], async (cell) => {
    if (cell.column.binding !== 'jsonrpc') return;
    const params = { ...v1('echo'), configuration: { ifGenerationMatch: '5' } };
    await post(base(cell), rpc('SendMessage', params), ONE);
    const seen = cell.agent.seen.findLast((one) => JSON.stringify(one.body).includes('ifGenerationMatch'));
    assert.ok(seen, 'a member of a later version was dropped');
  }),
  endpoint('the shared endpoint routes by tenant', ['G-2', 'G-4'], async ({ testbed, column, agent }) => {
    const word = mark();
    const front = `${testbed.gateway.url}/a2a`;
    const answer = await post(front, rpc('SendMessage', { ...v1(`echo ${word}`), tenant: column.name }), ONE);
    assert.ok((answer.body.result as { task?: unknown })?.task, answer.text);
    assert.ok(agent.heard.some((one) => one.parts[0]?.text?.includes(word)));
    const path = await post(`${front}/${column.name}/message:send`, v1('echo'), ONE);
    assert.equal(path.status, 200, path.text);
  }),
  endpoint(
    "cards name the gateway's addresses and every binding",
    ['S-1', 'S-2', 'S-3', 'S-5', 'G-10', 'G-12', 'G-14'],
    async (cell) => {
      const url = base(cell);
      const text = async (path: string, headers: Record<string, string> = {}): Promise<Body> => {
        const card = await ask(`${url}/.well-known/${path}`, { headers });
        assert.equal(card.status, 200, `${path}: ${card.text}`);
        assert.ok(!card.text.includes(cell.agent.url), "the agent's own address");
        return card.body;
      };
      type Interface = { url: string; protocolBinding: string; protocolVersion: string };
      const hybrid = await text('agent-card.json');
      assert.ok(hybrid['url'] && hybrid['protocolVersion'] && hybrid['supportedInterfaces'], 'the hybrid card');
      const one = await text('agent-card.json', ONE);
      const offered = one['supportedInterfaces'] as Interface[];
      assert.equal(one['url'], undefined, 'a pure 1.0 card has no url');
      for (const binding of ['JSONRPC', 'HTTP+JSON', 'GRPC'])
        assert.ok(
          offered.some((each) => each.protocolBinding === binding && each.protocolVersion === '1.0'),
          binding,
        );
      assert.ok(offered.every((each) => each.url && each.protocolBinding && each.protocolVersion));
      const legacy = await text('agent-card.json', { 'a2a-version': '0.3' });
      assert.equal(legacy['supportedInterfaces'], undefined);
      assert.match(String(legacy['protocolVersion']), /^0\.3/);
      assert.ok(legacy['preferredTransport'] && legacy['additionalInterfaces']);
      const old = await text('agent.json');
      assert.match(String(old['protocolVersion']), /^0\.2/);
      const capabilities = one['capabilities'] as { streaming?: boolean; pushNotifications?: boolean };
      assert.deepEqual([capabilities.streaming, capabilities.pushNotifications], [true, true]);
    },
    false,
  ),
  endpoint('the catalog', ['G-3', 'G-15'], async ({ testbed, column }) => {
    const agents = await ask(`${testbed.gateway.url}/a2a/agents`);
    assert.equal(agents.status, 200, agents.text);
    assert.match(agents.text, new RegExp(column.name));
    const api = await ask(`${testbed.gateway.url}/.well-known/api-catalog`);
    assert.equal(api.status, 200, api.text);
    assert.match(api.text, new RegExp(column.name));
    const front = await ask(`${testbed.gateway.url}/.well-known/agent-card.json`, { headers: ONE });
    assert.match(front.text, /\.echo"/, 'the front card has the skills of the agents');
  }),
  endpoint('both gRPC services have the same address', ['S-73'], async (cell) => {
    const offered = async (url: string): Promise<{ url: string; protocolVersion: string }[]> => {
      const card = await ask(`${url}/.well-known/agent-card.json`, { headers: ONE });
      const all = card.body['supportedInterfaces'] as {
        url: string;
        protocolBinding: string;
        protocolVersion: string;
      }[];
      return all.filter(({ protocolBinding }) => protocolBinding === 'GRPC');
    };
    // 0.3 has no tenant, so its service belongs to the routing agent.
    const own = await offered(base(cell));
    assert.deepEqual(
      own.map(({ protocolVersion }) => protocolVersion),
      ['1.0'],
    );
    const grpc = await offered(`${cell.testbed.gateway.url}/a2a`);
    assert.deepEqual(grpc.map(({ protocolVersion }) => protocolVersion).sort(), ['0.3', '1.0']);
    assert.equal(new Set(grpc.map(({ url }) => url)).size, 1);
    assert.match(grpc[0]!.url, /^127\.0\.0\.1:\d+$/);
  }),
  endpoint('cards can be cached, and are public', ['S-4', 'S-7'], async (cell) => {
    const url = `${base(cell)}/.well-known/agent-card.json`;
    const open = await fetch(url);
    assert.equal(open.status, 200);
    const tag = open.headers.get('etag');
    assert.ok(tag && /max-age/.test(open.headers.get('cache-control') ?? ''), 'the card has no ETag or no max-age');
    assert.match(open.headers.get('vary') ?? '', /a2a-version/i);
    assert.equal((await fetch(url, { headers: { 'if-none-match': tag } })).status, 304);
    const extended = await fetch(`${base(cell)}/extendedAgentCard`, { headers: ONE });
    assert.equal(extended.status, 401);
  }),
  endpoint('forged callbacks are refused', ['C-11'], async ({ testbed }) => {
    const body = { task: { id: 'none', status: { state: 'TASK_STATE_COMPLETED' } } };
    const { status } = await post(`${testbed.gateway.url}/a2a/push/made-up`, body);
    assert.ok(status >= 400 && status < 500, `HTTP ${status}`);
  }),
];
