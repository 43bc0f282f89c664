/** Servers that do nothing wrong in ways that once looked like violations. */
import { expect, it } from 'vitest';
import { assessFixture } from '../../../test/fixtures/assess/assess-fixture.js';
import {
  type Fault,
  type HttpAnswer,
  type Json,
  notification,
  type Settings,
} from '../../../test/fixtures/assess/mcp-server.js';
import { failedChecks } from '../report/model.js';

type Behaviour = Omit<Fault, 'row'>;

async function failuresOf(place: string, behaviour: Behaviour, settings: Partial<Settings> = {}): Promise<string[]> {
  const [letter = '', transport = ''] = place.split('/');
  const report = await assessFixture(letter, transport, { row: '', ...behaviour }, settings);
  expect(report.sections).toHaveLength(1);
  return report.sections.flatMap(failedChecks).map(({ id, reason }) => `${id}: ${reason}`);
}

const resultOf = (message: Json): Json | undefined => message['result'] as Json | undefined;
const isRpcError = ({ messages }: HttpAnswer): boolean => /-32\d{3}/.test(JSON.stringify(messages));
const params = (request: Json): Json => (request['params'] ?? {}) as Json;

/** Changes the results of a method. */
const results =
  (method: string, change: (result: Json, request: Json) => void): NonNullable<Fault['message']> =>
  (out, request) => {
    for (const message of out) {
      const result = resultOf(message);
      if (request['method'] === method && result !== undefined) change(result, request);
    }
    return out;
  };

/** Answers calls of a method with an error. */
const errors =
  (method: string, code: number, when: (request: Json) => boolean): NonNullable<Fault['message']> =>
  (out, request) =>
    request['method'] === method && when(request)
      ? [{ jsonrpc: '2.0', id: request['id'], error: { code, message: 'Not now' } }]
      : out;

const cases: readonly (readonly [what: string, place: string, Behaviour, Partial<Settings>?])[] = [
  ...['C/http', 'D/http', 'E/http'].flatMap((place) =>
    ['{"error":"invalid_token"}', '{"id":"req_7","message":"Refused"}', '{"error":{"message":"Refused"}}'].map(
      (body) =>
        [
          `refuses requests over HTTP with the body ${body}`,
          place,
          { http: (a: HttpAnswer) => (a.status >= 400 && !isRpcError(a) ? { ...a, messages: [], body } : a) },
          { token: 'secret-token' },
        ] as const,
    ),
  ),
  [
    'sends a page of errors with another charset',
    'D/http',
    {
      http: (a) =>
        a.status === 403
          ? {
              ...a,
              messages: [],
              body: '<p>é</p>',
              encoding: 'latin1',
              headers: { 'content-type': 'text/html; charset=iso-8859-1' },
            }
          : a,
    },
  ],
  [
    'answers bytes that are not JSON with the status 500',
    'D/http',
    {
      http: (a) =>
        JSON.stringify(a.messages).includes('-32700') ? { ...a, status: 500, messages: [], body: 'oops' } : a,
    },
  ],
  ...[1, 2, 3, 4, 5, 6].map(
    (at) =>
      [
        `changes its tools after ${at} lists`,
        'E/http',
        {
          message: (out, request, server) => {
            if (request['method'] !== 'tools/list' || params(request)['cursor'] !== undefined) return out;
            if (server.marks++ < at) return out;
            for (const message of out) (resultOf(message)?.['tools'] as Json[] | undefined)?.shift();
            return out;
          },
        } satisfies Behaviour,
      ] as const,
  ),
  [
    'asks for the arguments that a call does not have',
    'E/http',
    {
      message: results('tools/call', (result, request) => {
        if (params(request)['name'] !== 'echo') return;
        delete result['content'];
        delete result['isError'];
        Object.assign(result, { resultType: 'input_required', requestState: 'state' });
      }),
    },
  ],
  [
    'gives each result an id',
    'E/http',
    {
      message: results('tools/list', (result) =>
        Object.assign(result['_meta'] as Json, { requestId: crypto.randomUUID() }),
      ),
    },
  ],
  [
    'has data with keys that look like metadata',
    'E/http',
    {
      message: (out, request) => {
        for (const message of out) {
          const result = resultOf(message);
          const [tool] = (result?.['tools'] ?? []) as Json[];
          if (request['method'] === 'tools/list' && tool)
            tool['inputSchema'] = {
              type: 'object',
              properties: { _meta: { $ref: '#/$defs/meta' } },
              $defs: { meta: {} },
            };
        }
        return out;
      },
    },
  ],
  [
    'has a resource that cannot be read now',
    'D/http',
    { message: errors('resources/read', -32603, (q) => params(q)['uri'] === 'note://text') },
  ],
  [
    'has a prompt that cannot be made now',
    'D/stdio',
    {
      message: errors(
        'prompts/get',
        -32603,
        (q) => params(q)['name'] !== 'greet' && !String(params(q)['name']).startsWith('parley'),
      ),
    },
  ],
  ...['C/http', 'E/stdio'].map(
    (place) =>
      [
        'has a tool that needs one of its optional arguments',
        place,
        { message: errors('tools/call', -32602, (q) => params(q)['name'] === 'now' || params(q)['name'] === 'embed') },
      ] as const,
  ),
  [
    'has a tool that needs more time',
    'D/http',
    { http: (a, c) => (c.body.includes('"name":"embed"') ? { ...a, open: true, messages: [], stream: true } : a) },
  ],
  [
    'gives session ids and does not need them',
    'D/http',
    {
      http: (a, c) =>
        a.status === 400 && c.headers['mcp-session-id'] === undefined && c.body.includes('"ping"')
          ? {
              status: 200,
              headers: {},
              messages: [{ jsonrpc: '2.0', id: (JSON.parse(c.body) as Json)['id'], result: {} }],
              stream: false,
            }
          : a,
    },
  ],
  [
    'has no sessions and refuses a request whose version it would have to guess',
    'D/http',
    {
      http: (a, c) =>
        c.body.includes('"ping"') && c.headers['mcp-protocol-version'] === undefined
          ? { ...a, status: 400, messages: [] }
          : a,
    },
    { sessions: false },
  ],
  [
    'publishes its metadata at another host',
    'D/http',
    {
      http: (a, c) => {
        if (c.path.startsWith('/.well')) return { ...a, status: 404, messages: [] };
        const challenge = a.headers['www-authenticate']?.replace(
          /resource_metadata="[^"]*"/,
          'resource_metadata="https://auth.example/metadata"',
        );
        return challenge === undefined ? a : { ...a, headers: { ...a.headers, 'www-authenticate': challenge } };
      },
    },
    { token: 'secret-token' },
  ],
  [
    'offers another scheme before Bearer',
    'C/http',
    {
      http: (a) =>
        a.status === 401
          ? { ...a, headers: { 'www-authenticate': `Basic realm="x", ${a.headers['www-authenticate']}` } }
          : a,
    },
    { token: 'secret-token' },
  ],
  [
    'deletes cancelled tasks',
    'D/http',
    {
      message: (out, request, server) => {
        const { method } = request;
        if (method === 'tasks/cancel' && out.some(resultOf)) server.marks = 1;
        else if (method === 'tasks/get' && server.marks === 1)
          return [{ jsonrpc: '2.0', id: request['id'], error: { code: -32602, message: 'Unknown task' } }];
        return out;
      },
    },
  ],
  [
    'ends each task before it can be cancelled',
    'D/stdio',
    {
      message: (out, request) => {
        for (const message of out) {
          if (request['method'] === 'tasks/get' && resultOf(message)) resultOf(message)!['status'] = 'completed';
          if (request['method'] !== 'tasks/cancel') continue;
          delete message['result'];
          message['error'] = { code: -32602, message: 'The task has ended' };
        }
        return out;
      },
    },
  ],
  [
    'cancels a request that it sent while nothing waited',
    'D/stdio',
    {
      message: (out, { method }) => {
        if (method === 'notifications/initialized') return [{ jsonrpc: '2.0', id: 'alive', method: 'ping' }];
        return method === 'tools/list'
          ? [notification('notifications/cancelled', { requestId: 'alive' }), ...out]
          : out;
      },
    },
  ],
  [
    'cancels a request that it sent on another stream',
    'C/http',
    {
      message: (out, { method }) =>
        method === 'tools/list' ? [notification('notifications/cancelled', { requestId: 2 }), ...out] : out,
    },
  ],
  ...['B/http', 'D/stdio'].map(
    (place) =>
      [
        'answers a cancelled call',
        place,
        {
          message: (out, request) => {
            const { requestId } = params(request);
            if (requestId !== 'parley-cancelled-call') return out;
            return [...out, { jsonrpc: '2.0', id: requestId, error: { code: 0, message: 'Cancelled' } }];
          },
        } satisfies Behaviour,
      ] as const,
  ),
  [
    'opens few sessions and needs no token',
    'D/http',
    // The first request of a connection has the id 1.
    {
      http: (a, c) =>
        c.body.includes('"initialize"') && !c.body.includes('"id":1,') ? { ...a, status: 429, messages: [] } : a,
    },
  ],
];

/** Counts the events of each session from the beginning. */
function countedEvents(): Behaviour {
  const counts = new Map<string | undefined, number>();
  return {
    http: (a, c) => {
      if (!a.stream) return a;
      const session = c.headers['mcp-session-id'] ?? a.headers['mcp-session-id'];
      const ids = a.messages.map(() => {
        counts.set(session, (counts.get(session) ?? 0) + 1);
        return `e${counts.get(session)}`;
      });
      return { ...a, ids };
    },
  };
}

it('a server that needs a token is not said to speak a revision', async () => {
  const report = await assessFixture('D', 'http', undefined, { token: 'secret-token' }, { credentials: [] });
  expect(report.sections.map(({ surfaces }) => surfaces)).toEqual([['no revision over http: authorization is needed']]);
  expect(report.sections.flatMap(failedChecks)).toEqual([]);
  expect(report.notes).toEqual(['The server needs a token. Give one with --auth to examine the rest.']);
});

it('event ids may begin again in another session', async () => {
  expect(await failuresOf('C/http', countedEvents(), { stream: true })).toEqual([]);
});

it('items is for what follows prefixItems', async () => {
  const pair = { type: 'array', prefixItems: [{ type: 'integer' }], items: { type: 'string' } };
  const given = { n: 1, pair: [1, 'a'] };
  const message: NonNullable<Fault['message']> = (out, request) => {
    for (const result of out.map(resultOf)) {
      for (const tool of (result?.['tools'] ?? []) as Json[])
        if (tool['name'] === 'now') tool['outputSchema'] = { type: 'object', properties: { pair } };
      if (request['method'] === 'tools/call' && result?.['structuredContent'] !== undefined)
        Object.assign(result, { structuredContent: given, content: [{ type: 'text', text: JSON.stringify(given) }] });
    }
    return out;
  };
  expect(await failuresOf('D/http', { message })).toEqual([]);
});

for (const [what, place, behaviour, settings] of cases)
  it(`${place} that ${what} has no failures`, async () => {
    expect(await failuresOf(place, behaviour, settings)).toEqual([]);
  });

it('a log line on stdout is not taken for a part of a message', async () => {
  const lines: NonNullable<Fault['lines']> = (_, request) =>
    request['method'] === 'tools/list' ? ['[INFO] listing tools', ' [debug] {tools}', '"quoted" words'] : [];
  expect((await failuresOf('D/stdio', { lines })).map((each) => each.split(':')[0])).toEqual(['STD-02']);
});

it('a question about roots that arrives during a call does not count as a question of the tool', async () => {
  const message: NonNullable<Fault['message']> = (out, request) => {
    for (const result of out.map(resultOf))
      if (Array.isArray(result?.['tools'])) result['tools'] = result['tools'].filter(({ name }) => name === 'now');
    return request['method'] === 'tools/call' ? [{ jsonrpc: '2.0', id: 'roots', method: 'roots/list' }, ...out] : out;
  };
  const report = await assessFixture('D', 'stdio', { row: '', message });
  const checks = report.sections.flatMap(({ checks }) => checks).filter(({ id }) => id === 'ELI-11');
  expect(checks.map(({ outcome }) => outcome)).toEqual(['skip']);
});
