/**
 * What does not cross the gateway. Each line of that section of the README names one of these tests. The peers are made
 * of plain messages, because the SDKs would not let them misbehave.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { type Answer, callTool, type Json, LegacyClient, modern, textOf } from './peers/wire.js';

const peer = (name: string): string => fileURLToPath(new URL(`./peers/${name}`, import.meta.url));
const FORM = { elicitation: { form: {} } };
const LEGACY_REVISIONS = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'];

let folder: string;
let upstream: ChildProcess;
let gateway: RunningGateway;
let servers: Record<string, object>;
let all: string;
let legacy: string;
let modernServer: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'parley-crossing-'));
  const env = (name: string) => ({ RECORD: join(folder, name) });
  upstream = spawn(process.execPath, [peer('modern.mjs')], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...env('modern') },
  });
  const [line] = await once(createInterface(upstream.stdout!), 'line');
  const url = String(line).replace('listening ', '');
  servers = {
    legacy: { command: process.execPath, args: [peer('legacy.mjs')], env: env('legacy') },
    modern: { url: `${url}/mcp` },
    moved: { url: `${url}/moved`, revision: 'modern', transport: 'http' },
  };
  gateway = await startGateway({ servers, limits: { body: '64KiB' } }, { env: { SECRET_OF_THE_GATEWAY: 'x' } });
  all = `${gateway.url}/mcp`;
  legacy = `${all}/legacy`;
  modernServer = `${all}/modern`;
});

afterAll(async () => {
  await gateway?.close();
  upstream?.stdin?.end();
  await once(upstream, 'exit');
  rmSync(folder, { recursive: true, force: true });
});

/** What a peer was told so far. */
function told(name: 'legacy' | 'modern'): Json[] {
  try {
    const lines = readFileSync(join(folder, name), 'utf8').split('\n').filter(Boolean);
    return lines.map((line) => JSON.parse(line) as Json);
  } catch {
    return [];
  }
}

/** What a peer is told while something happens, and a little after. */
async function toldDuring(name: 'legacy' | 'modern', act: () => Promise<unknown>): Promise<Json[]> {
  const before = told(name).length;
  await act();
  await delay(400);
  return told(name).slice(before);
}

const replies = (messages: Json[]): Json[] => messages.filter((message) => message['method'] === undefined);

describe('questions', () => {
  test('NX-01 a question outside of any call is refused to the server', async () => {
    let answer: Answer | undefined;
    const messages = await toldDuring('legacy', async () => {
      answer = await callTool(legacy, 'ask_later', {}, { capabilities: FORM });
    });
    expect(textOf(answer!)).toBe('later');
    expect(replies(messages)).toMatchObject([{ error: { code: -32602 } }]);
  });

  test('NX-02 a question in the middle of a completion is refused to the server', async () => {
    const ref = { type: 'ref/resource', uri: 'legacy://{name}' };
    const messages = await toldDuring('legacy', async () => {
      const params = { ref, argument: { name: 'name', value: '' } };
      const { result } = await modern(legacy, 'completion/complete', params, { capabilities: FORM });
      expect(result).toMatchObject({ resultType: 'complete', completion: { values: ['done'] } });
    });
    expect(replies(messages)).toMatchObject([{ error: { code: expect.any(Number) } }]);
  });

  test.each([
    ['2024-11-05', 'ask', { elicitation: {} }],
    ['2025-03-26', 'ask', { elicitation: {} }],
    ['2025-06-18', 'ask_url', { elicitation: { form: {}, url: {} } }],
    ['2025-06-18', 'ask_several', { elicitation: {} }],
    ['2025-06-18', 'sample_tools', { sampling: { tools: {} } }],
    ['2024-11-05', 'sample_audio', { sampling: {} }],
  ])(
    'NX-03 a question the revision of the client has no words for is not asked: %s, %s',
    async (revision, tool, capabilities) => {
      const client = await LegacyClient.open(modernServer, revision, capabilities, () => ({
        result: { action: 'accept' },
      }));
      const { messages, result, error } = await client.call(tool);
      expect(messages.filter((message) => 'method' in message)).toEqual([]);
      // Refused in words, or answered for the client with what the protocol has for it: a cancelled form.
      if (error === undefined && result?.['isError'] !== true)
        expect(textOf({ result, error } as Answer)).toContain('"cancel"');
    },
  );

  test('NX-04 what went wrong while a client answered reaches a modern server as a cancelled form, or ends the call', async () => {
    const capabilities = { ...FORM, sampling: {} };
    const client = await LegacyClient.open(modernServer, '2025-11-25', capabilities);
    expect(JSON.parse(textOf(await client.call('ask'))).answers).toEqual({ one: { action: 'cancel' } });
    const { result, error } = await client.call('sample');
    expect(error !== undefined || result?.['isError'] === true).toBe(true);
  });

  test('NX-05 includeContext is taken out of sampling', async () => {
    const { result } = await callTool(legacy, 'sample', {}, { capabilities: { sampling: { context: {} } } });
    const [question] = Object.values(result?.['inputRequests'] as Record<string, { params: Json }>);
    expect(question?.params).toMatchObject({ maxTokens: 9 });
    expect(question?.params).not.toHaveProperty('includeContext');
  });

  test('NX-06 a parked call does not survive its gateway: the answer is refused, and the tool is not run again', async () => {
    const data = join(folder, 'data');
    const first = await startGateway({ servers }, { data });
    const asked = await callTool(`${first.url}/mcp/legacy`, 'ask', {}, { capabilities: FORM });
    expect(asked.result).toMatchObject({ resultType: 'input_required' });
    const { requestState, inputRequests } = asked.result as { requestState: string; inputRequests: Json };
    await first.close();
    const second = await startGateway({ servers }, { data });
    const answers = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, { action: 'decline' }]));
    const messages = await toldDuring('legacy', async () => {
      const late = await callTool(
        `${second.url}/mcp/legacy`,
        'ask',
        {},
        { capabilities: FORM, state: requestState, answers },
      );
      expect(late.error?.code).toBe(-32602);
    });
    await second.close();
    expect(messages.filter(({ method }) => method === 'tools/call')).toEqual([]);
  });

  test('NX-07 tasks hosted by a client are not offered to servers', async () => {
    const messages = await toldDuring('legacy', async () => {
      const tasks = { requests: { elicitation: { create: {} } } };
      const client = await LegacyClient.open(legacy, '2025-11-25', { ...FORM, tasks }, () => ({
        result: { action: 'decline' },
      }));
      await client.call('ask');
    });
    for (const { method, params } of messages) {
      if (method === 'initialize') expect((params as Json)['capabilities']).not.toHaveProperty('tasks.requests');
    }
  });
});

describe('messages beside the call', () => {
  test('NX-08 log lines of a server on stdio are dropped when two calls are under way', async () => {
    const log = (ms: number): Promise<Answer> =>
      callTool(legacy, 'log', { ms }, { meta: { 'io.modelcontextprotocol/logLevel': 'debug' } });
    const lines = ({ messages }: Answer): number =>
      messages.filter(({ method }) => method === 'notifications/message').length;
    expect(lines(await log(1))).toBe(1);
    const [one, two] = await Promise.all([log(200), log(200)]);
    expect(lines(one) + lines(two)).toBe(0);
  });

  test('NX-09 notifications of a client that belong to no call are not passed on', async () => {
    const messages = await toldDuring('legacy', async () => {
      const client = await LegacyClient.open(legacy, '2025-11-25', { roots: { listChanged: true } });
      await client.tell('notifications/roots/list_changed');
      await client.tell('notifications/example/odd');
      await client.call('recall');
    });
    expect(messages.map(({ method }) => method)).not.toContain('notifications/roots/list_changed');
    expect(messages.map(({ method }) => method)).not.toContain('notifications/example/odd');
  });

  test('NX-10 ping is answered by the gateway', async () => {
    const messages = await toldDuring('legacy', async () => {
      const client = await LegacyClient.open(legacy, '2025-11-25');
      expect((await client.request('ping')).result).toEqual({});
    });
    expect(messages.map(({ method }) => method)).not.toContain('ping');
  });

  test('NX-11 methods no revision knows are refused where all servers are seen', async () => {
    const messages = await toldDuring('modern', async () => {
      const { status, error } = await modern(all, 'example/odd');
      expect({ status, code: error?.code }).toEqual({ status: 404, code: -32601 });
    });
    expect(messages).toEqual([]);
  });
});

describe('sessions and streams', () => {
  test('NX-12 a legacy server has no session for each conversation of a modern client', async () => {
    expect(textOf(await callTool(legacy, 'remember', { what: 'one conversation' }))).toBe('one conversation');
    expect(textOf(await callTool(legacy, 'recall'))).toBe('one conversation');
  });

  test('NX-13 a modern client that loses its stream has cancelled the call', async () => {
    const messages = await toldDuring('legacy', async () => {
      const lost = callTool(legacy, 'slow', {}, { signal: AbortSignal.timeout(300) });
      await expect(lost).rejects.toThrow();
    });
    expect(messages.map(({ method }) => method)).toContain('notifications/cancelled');
  });

  test('NX-14 a call whose server is gone is not sent again; the error says that it may have run', async () => {
    let answer: Answer | undefined;
    const messages = await toldDuring('legacy', async () => {
      answer = await callTool(legacy, 'crash');
    });
    expect(messages.filter(({ method }) => method === 'tools/call')).toHaveLength(1);
    expect(JSON.stringify(answer?.error ?? answer?.result)).toContain('unknown');
  });

  test('NX-15 ids, states and the name of the server stay on their side', async () => {
    const { result } = await callTool(modernServer, 'ask', {}, { capabilities: FORM });
    const { requestState } = result as { requestState: string };
    expect(requestState).not.toContain('tat/1');
    const again = await callTool(modernServer, 'ask', {}, { capabilities: FORM, state: requestState, answers: {} });
    expect(JSON.parse(textOf(again)).state).toBe('état/1');
    expect(again.result?.['_meta']).toMatchObject({ 'io.modelcontextprotocol/serverInfo': { name: 'parley' } });
  });
});

describe('results and lists', () => {
  test.each(LEGACY_REVISIONS)('NX-16 structured output that %s has no words for becomes text', async (revision) => {
    const client = await LegacyClient.open(modernServer, revision);
    const { result } = await client.call('number');
    expect(result).toEqual({ content: [{ type: 'text', text: '42' }] });
    const { result: listed } = await client.request('tools/list');
    const tools = new Map((listed!['tools'] as Json[]).map((tool) => [tool['name'], tool]));
    expect(tools.get('number')).not.toHaveProperty('outputSchema');
    const rank = LEGACY_REVISIONS.indexOf(revision);
    expect(Object.keys(tools.get('seen')!).sort()).toEqual(
      [
        'name',
        'inputSchema',
        ...(rank >= 1 ? ['annotations'] : []),
        ...(rank >= 2 ? ['title', 'outputSchema'] : []),
        ...(rank >= 3 ? ['icons'] : []),
      ].sort(),
    );
  });

  test('NX-17 audio and links reach older revisions as an embedded resource and as text', async () => {
    const oldest = await LegacyClient.open(modernServer, '2024-11-05');
    expect((await oldest.call('rich')).result?.['content']).toMatchObject([
      { type: 'resource', resource: { mimeType: 'audio/wav', blob: 'AAAA' } },
      { type: 'text', text: 'a <https://example.com/a>' },
    ]);
    const next = await LegacyClient.open(modernServer, '2025-03-26');
    expect((await next.call('rich')).result?.['content']).toMatchObject([{ type: 'audio' }, { type: 'text' }]);
  });

  test('NX-18 unknown extensions pass where a client sees one server, and not where it sees all', async () => {
    const capabilities = { extensions: { 'com.example/odd': {} } };
    const reached = async (url: string, tool: string): Promise<Json> =>
      JSON.parse(textOf(await callTool(url, tool, {}, { capabilities }))).capabilities;
    expect(await reached(modernServer, 'seen')).toMatchObject(capabilities);
    expect(await reached(all, 'modern__seen')).not.toHaveProperty('extensions');
  });

  test('NX-19 experimental capabilities of a server are not advertised', async () => {
    const client = await LegacyClient.open(all, '2025-11-25');
    expect(client.initialized['capabilities']).toHaveProperty('tools');
    expect(client.initialized['capabilities']).not.toHaveProperty('experimental');
  });

  test('NX-20 a resource that two servers have is refused with the candidates', async () => {
    const { error } = await modern(all, 'resources/read', { uri: 'shared://both' });
    expect(error).toMatchObject({ code: -32602, data: { candidates: ['legacy', 'modern'] } });
    const { result } = await modern(legacy, 'resources/read', { uri: 'shared://both' });
    expect(result).toMatchObject({ contents: [{ text: 'legacy' }] });
  });

  test('NX-21 names over 64 characters are shortened where all servers are seen', async () => {
    const names = async (url: string): Promise<string[]> =>
      ((await modern(url, 'tools/list')).result!['tools'] as { name: string }[]).map(({ name }) => name);
    const own = (await names(legacy)).find((name) => name.startsWith('a_tool'));
    const shown = (await names(all)).find((name) => name.startsWith('legacy__a_tool'));
    expect(own!.length).toBeGreaterThan(64);
    expect(shown).toHaveLength(64);
    expect(textOf(await callTool(all, shown!))).toBe('long');
  });
});

describe('the way itself', () => {
  test('NX-22 headers of the caller, its credentials among them, do not reach a server', async () => {
    const headers = { authorization: 'Bearer of-the-caller', cookie: 'a=b', 'x-anything': 'else' };
    const seen = JSON.parse(textOf(await callTool(modernServer, 'seen', {}, { headers }))).headers as Json;
    for (const name of Object.keys(headers)) expect(seen).not.toHaveProperty(name);
    expect(seen).toMatchObject({ 'mcp-method': 'tools/call', 'mcp-name': 'seen' });
  });

  test('NX-23 the environment of the gateway does not reach a program it starts', async () => {
    const names = textOf(await callTool(legacy, 'environment')).split(' ');
    expect(names).toContain('PATH');
    expect(names).toContain('RECORD');
    expect(names).not.toContain('SECRET_OF_THE_GATEWAY');
  });

  test('NX-24 redirects of a server are not followed', async () => {
    const messages = await toldDuring('modern', async () => {
      const { result, error } = await callTool(`${all}/moved`, 'seen');
      expect(error !== undefined || result?.['isError'] === true).toBe(true);
    });
    expect(messages.filter(({ path }) => path === '/mcp')).toEqual([]);
  });

  test('NX-25 requests over the size or depth that is set are refused', async () => {
    const messages = await toldDuring('modern', async () => {
      expect((await callTool(modernServer, 'seen', { long: 'x'.repeat(70_000) })).status).toBe(413);
      let deep: Json = {};
      for (let i = 0; i < 100; i++) deep = { deep };
      expect((await callTool(modernServer, 'seen', deep)).error).toBeDefined();
    });
    expect(messages).toEqual([]);
  });
});
