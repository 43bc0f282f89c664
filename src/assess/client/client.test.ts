import { expect, test } from 'vitest';
import { revisionOf } from '../../protocol/mcp/revisions/index.js';
import type { Json } from '../json.js';
import { profileOf } from '../profiles.js';
import { failedChecks, type Report } from '../report/model.js';
import { clientReport } from './client-report.js';
import { CLIENT_CHECKS, CLIENT_REQUIREMENTS } from './requirements.js';
import { ScriptedServer } from './scripted-server.js';
import { type Heard, Transcript } from './transcript.js';

const PREFIX = 'io.modelcontextprotocol';
const INFO = { name: 'visitor', version: '1' };

/** A message of the client that a fault may change, drop or repeat. */
interface Said {
  readonly http?: Heard['http'];
  readonly message?: unknown;
}
type Change = (said: Said, index: number) => readonly Said[];

const asIs: Change = (said) => [said];

/** The visit of a correct client: handshake, two pages of tools, answers to questions, a call, the end. */
async function visit(letter: string, transport: 'http' | 'stdio', change: Change = asIs): Promise<Report> {
  const date = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'][letter.charCodeAt(0) - 65]!;
  const modern = revisionOf(date)?.era === 'modern';
  const transcript = new Transcript(transport);
  const script = new ScriptedServer(transcript);
  const asked: Json[] = [];
  transcript.opened('session');
  let index = 0;
  const say = async (message: Json | undefined, method = 'POST', after = true): Promise<Json | undefined> => {
    const params = (message?.['params'] ?? {}) as Json;
    const headers: Record<string, string> = {
      accept: method === 'POST' ? 'application/json, text/event-stream' : 'text/event-stream',
      'content-type': 'application/json',
      ...(modern && {
        'mcp-protocol-version': date,
        'mcp-method': String(message?.['method']),
        ...(params['name'] !== undefined && { 'mcp-name': String(params['name']) }),
      }),
      ...(!modern && after && { 'mcp-session-id': 'session', 'mcp-protocol-version': date }),
    };
    const said: Said = { message, ...(transport === 'http' && { http: { method, headers } }) };
    let reply: Json | undefined;
    const all = change(said, index++);
    for (const each of all) transcript.hear(each.message, each.http);
    for (const each of all) {
      if (each.message !== undefined) reply = await script.receive(each.message, (question) => asked.push(question));
    }
    return reply;
  };
  let id = 0;
  const request = (method: string, params: Json = {}): Json => {
    const meta = modern
      ? {
          [`${PREFIX}/protocolVersion`]: date,
          [`${PREFIX}/clientCapabilities`]: { elicitation: {} },
          [`${PREFIX}/clientInfo`]: INFO,
        }
      : {};
    const progressToken = method === 'tools/call' ? { progressToken: id } : {};
    return { jsonrpc: '2.0', id: id++, method, params: { ...params, _meta: { ...meta, ...progressToken } } };
  };
  if (modern) await say(request('server/discover'));
  else {
    const params = { protocolVersion: date, capabilities: { roots: {} }, clientInfo: INFO };
    await say({ jsonrpc: '2.0', id: id++, method: 'initialize', params }, 'POST', false);
    await say({ jsonrpc: '2.0', method: 'notifications/initialized' });
    if (transport === 'http') await say(undefined, 'GET');
    script.ask((question) => asked.push(question));
    for (const { id: given, method } of asked.filter((each) => each['id'] !== undefined)) {
      const answers: Record<string, Json> = {
        ping: { result: {} },
        'roots/list': { result: { roots: [{ uri: 'file:///a' }] } },
      };
      const unknown = { error: { code: -32601, message: 'Method not found' } };
      await say({ jsonrpc: '2.0', id: given, ...(answers[String(method)] ?? unknown) });
    }
  }
  const first = await say(request('tools/list'));
  const { nextCursor } = (first?.['result'] ?? {}) as Json;
  await say(request('tools/list', { cursor: nextCursor ?? 'none' }));
  const called = await say(request('tools/call', { name: 'hello', arguments: {} }));
  const { requestState } = (called?.['result'] ?? {}) as Json;
  if (requestState !== undefined)
    await say(
      request('tools/call', { name: 'hello', requestState, inputResponses: { answer: { action: 'decline' } } }),
    );
  if (!modern) await say({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id - 1 } });
  if (transport === 'http' && !modern) await say(undefined, 'DELETE');
  return clientReport(transcript, { tool: 'test', profile: profileOf('standard')!, started: new Date() });
}

const failures = (report: Report): string[] => report.sections.flatMap(failedChecks).map(({ id }) => id);

test.each(['A stdio', 'B http', 'B stdio', 'C http', 'D http', 'D stdio', 'E http', 'E stdio'])(
  'a correct client of %s has no failures',
  async (place) => {
    const [letter = '', transport = ''] = place.split(' ');
    const report = await visit(letter, transport as 'http');
    expect(report.sections.flatMap(failedChecks)).toEqual([]);
    expect(report).toMatchObject({ score: 100, complete: true, target: 'client visitor 1' });
  },
);

const isMethod = ({ message }: Said, method: string): boolean => (message as Json | undefined)?.['method'] === method;
const edit =
  (when: (said: Said) => boolean, change: (message: Json) => unknown): Change =>
  (said) => [when(said) ? { ...said, message: change(structuredClone(said.message) as Json) } : said];
const drop =
  (when: (said: Said) => boolean): Change =>
  (said) =>
    when(said) ? [] : [said];
const without =
  (name: string, value?: string): Change =>
  (said) => {
    if (!said.http) return [said];
    const { [name]: _, ...headers } = said.http.headers;
    return [
      { ...said, http: { ...said.http, headers: { ...headers, ...(value !== undefined && { [name]: value }) } } },
    ];
  };
const withMethod =
  (method: string): ((said: Said) => boolean) =>
  (said) =>
    isMethod(said, method);
const hasId = ({ message }: Said): boolean => (message as Json | undefined)?.['id'] !== undefined;
const isRequest = (said: Said): boolean => hasId(said) && (said.message as Json)['method'] !== undefined;
const isAnswer = (said: Said): boolean => hasId(said) && !isRequest(said);
const withParams = (message: Json, more: Json): Json => ({
  ...message,
  params: { ...(message['params'] as Json), ...more },
});
const meta = (message: Json): Json => (message['params'] as Json)['_meta'] as Json;

const FAULTS: readonly (readonly [row: string, places: string, change: Change])[] = [
  ['BASE-01', 'A C E', edit(withMethod('tools/list'), (m) => ({ ...m, jsonrpc: '1.0' }))],
  ['BASE-02', 'A D', edit(withMethod('tools/call'), (m) => ({ ...m, id: 1 }))],
  [
    'BASE-03',
    'E',
    (said) =>
      isMethod(said, 'tools/call')
        ? [{ ...said, message: { ...(said.message as Json), method: 'never' } }, said]
        : [said],
  ],
  ['BASE-04', 'A D', edit(isAnswer, (m) => ({ ...m, result: {}, error: { code: 1, message: 'x' } }))],
  ['BASE-06', 'A D', (said) => (isAnswer(said) ? [said, said] : [said])],
  ['BASE-09', 'C D E', edit(withMethod('tools/list'), (m) => [m])],
  [
    'LIFE-01',
    'A D',
    edit(withMethod('initialize'), (m) => ({
      ...m,
      params: { protocolVersion: (m['params'] as Json)['protocolVersion'] },
    })),
  ],
  ['LIFE-03', 'A D', drop(withMethod('notifications/initialized'))],
  ['LIFE-04', 'A D', drop(withMethod('notifications/initialized'))],
  ['LIFE-06', 'D', edit(withMethod('initialize'), (m) => withParams(m, { protocolVersion: '2020-01-01' }))],
  ['LIFE-09', 'A D E', edit(withMethod('tools/list'), (m) => ({ ...m, method: 'prompts/list' }))],
  ['LIFE-10', 'A D', edit(withMethod('notifications/cancelled'), (m) => withParams(m, { requestId: 0 }))],
  ['LIFE-11', 'A D', drop(isAnswer)],
  ['BASE-20', 'A D', edit(isAnswer, (m) => (m['error'] ? { ...m, error: { code: -32603, message: 'x' } } : m))],
  [
    'ROOT-03',
    'A D',
    edit(isAnswer, (m) => (m['result'] ? { ...m, result: { roots: [{ uri: 'https://a.example' }] } } : m)),
  ],
  [
    'META-01',
    'E',
    edit(isRequest, (m) => {
      delete meta(m)[`${PREFIX}/clientCapabilities`];
      return m;
    }),
  ],
  [
    'META-02',
    'E',
    edit(isRequest, (m) => {
      delete meta(m)[`${PREFIX}/clientInfo`];
      return m;
    }),
  ],
  ['HC-01', 'B D E', without('accept', 'application/json')],
  [
    'HC-02',
    'E',
    (said) =>
      isMethod(said, 'tools/call') ? [said, { ...said, message: { jsonrpc: '2.0', id: 1, result: {} } }] : [said],
  ],
  ['HDR-01', 'E', without('mcp-protocol-version')],
  ['HDR-02', 'E', without('mcp-name', 'other')],
  ['HLC-01', 'B D', without('mcp-session-id')],
  ['HLC-03', 'B D', drop(({ http }) => http?.method === 'DELETE')],
  ['HLC-04', 'C D', without('mcp-protocol-version')],
  ['HLC-05', 'B D', (said) => (said.http?.method === 'GET' ? without('accept', '*/*')(said, 0) : [said])],
  [
    'STD-04',
    'E',
    (said) => (isMethod(said, 'tools/call') ? [said, { message: { jsonrpc: '2.0', id: 1, result: {} } }] : [said]),
  ],
  [
    'PAG-01',
    'A D E',
    edit(withMethod('tools/list'), (m) => ((m['params'] as Json)['cursor'] ? withParams(m, { cursor: 'mine' }) : m)),
  ],
  [
    'PRG-01',
    'A D E',
    edit(withMethod('tools/call'), (m) => {
      meta(m)['progressToken'] = { a: 1 };
      return m;
    }),
  ],
  ['CAN-01', 'A D', edit(withMethod('notifications/cancelled'), (m) => withParams(m, { requestId: 'other' }))],
  [
    'MRTR-10',
    'E',
    edit(withMethod('tools/call'), (m) =>
      (m['params'] as Json)['requestState'] ? withParams(m, { requestState: 'changed' }) : m,
    ),
  ],
];

test('planted faults are found and named by their requirement', async () => {
  const missed: string[] = [];
  for (const [row, places, change] of FAULTS) {
    for (const letter of places.split(' ')) {
      const { over } = CLIENT_REQUIREMENTS.find(({ id }) => id === row)!;
      const transport = over.includes('http') && letter !== 'A' ? 'http' : 'stdio';
      const failed = failures(await visit(letter, transport, change));
      if (!failed.includes(row)) missed.push(`${row} ${letter} ${transport}: ${failed.join(' ')}`);
    }
  }
  expect(missed).toEqual([]);
  const planted = new Set(FAULTS.map(([row]) => row));
  // Lines that are not JSON do not reach the script.
  expect(CLIENT_REQUIREMENTS.filter(({ id }) => !planted.has(id)).map(({ id }) => id)).toEqual(['STD-03']);
}, 120_000);

test('every requirement has a check, and every check a requirement', () => {
  const used = CLIENT_REQUIREMENTS.map(({ probe }) => probe!);
  expect([...new Set(used)].sort()).toEqual(Object.keys(CLIENT_CHECKS).sort());
});

test('a visit without a message has no grade', () => {
  const report = clientReport(new Transcript('http'), {
    tool: 't',
    profile: profileOf('standard')!,
    started: new Date(),
  });
  expect(report).toMatchObject({ score: 0, complete: false, notes: ['No MCP client was recognised.'] });
});
