/** A LiteLLM proxy in front of the gateway, with the configuration that its documents show (S3-06). */
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEcho } from '../input/support/echo.js';
import { startGateway } from '../support/gateway.js';
import { executable, type Package } from './packages.js';
import type { Score } from './score.js';
import { end, freePort, listening } from './start.js';

export const LITELLM: Package = {
  ...{ registry: 'pypi', name: 'litellm', version: '1.106.2', extras: 'proxy' },
  // The proxy pins many versions that differ from those of the clients.
  constraints: 'constraints-litellm.txt',
};

const TOKEN = 'ferry-timetable-of-ada-0123456789-abcdef';
const KEY = 'sk-key-of-the-proxy-0123456789';
const TEXT = 'grüße 漢字 🎈';

interface Listed {
  readonly tools: readonly { readonly name: string; readonly mcp_info: { readonly server_id: string } }[];
}
interface Result {
  readonly content: readonly { readonly text: string }[];
}

export async function litellm(score: Score): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-litellm-'));
  const echo = await startEcho();
  const gateway = await startGateway({
    servers: { echo: { url: echo.url } },
    auth: { tokens: [{ name: 'ada', token: TOKEN }] },
  });
  const port = await freePort();
  const file = join(folder, 'config.yaml');
  // JSON is YAML.
  const server = {
    url: `${gateway.url}/mcp`,
    transport: 'http',
    auth_type: 'bearer_token',
    authentication_token: TOKEN,
  };
  await writeFile(file, JSON.stringify({ mcp_servers: { parley: server }, general_settings: { master_key: KEY } }));
  const proxy = spawn(
    executable(LITELLM, 'litellm'),
    ['--config', file, '--host', '127.0.0.1', '--port', String(port)],
    {
      cwd: folder,
      // The proxy otherwise fetches a table of prices.
      env: { ...process.env, LITELLM_LOCAL_MODEL_COST_MAP: 'True', LITELLM_TELEMETRY: 'False' },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  const ask = async (path: string, body?: object): Promise<string> => {
    const reply = await fetch(`http://127.0.0.1:${port}${path}`, {
      method: body ? 'POST' : 'GET',
      headers: {
        authorization: `Bearer ${KEY}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await reply.text();
    if (!reply.ok) throw new Error(`${path}: HTTP ${reply.status}: ${text.slice(0, 300)}`);
    return text;
  };
  /** The message of an answer in JSON or as one event. */
  const message = (text: string): { readonly result: Listed & Result } =>
    JSON.parse(/^data: (.*)$/m.exec(text)?.[1] ?? text);
  try {
    await listening(proxy, 'litellm', port);
    const wanted = ['echo__echo', 'echo__steps', 'echo__wait'];
    let serverId = '';
    await score.test('LiteLLM lists the tools of the gateway', async () => {
      const { tools } = JSON.parse(await ask('/mcp-rest/tools/list')) as Listed;
      serverId = tools[0]?.mcp_info.server_id ?? '';
      const names = tools.map(({ name }) => name).sort();
      return names.join() === wanted.join() ? { note: `${names.length} tools` } : { problem: names.join() };
    });
    await score.test('LiteLLM calls a tool through its REST API', async () => {
      const body = { server_id: serverId, name: 'echo__echo', arguments: { text: TEXT } };
      const { content } = JSON.parse(await ask('/mcp-rest/tools/call', body)) as Result;
      return content[0]?.text === TEXT ? {} : { problem: JSON.stringify(content) };
    });
    await score.test('LiteLLM passes MCP requests of its clients on', async () => {
      const listed = message(await ask('/mcp/', { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }));
      const name = listed.result.tools.find((tool) => tool.name.endsWith('echo__echo'))?.name;
      const params = { name, arguments: { text: TEXT } };
      const called = message(await ask('/mcp/', { jsonrpc: '2.0', id: 2, method: 'tools/call', params }));
      return called.result.content[0]?.text === TEXT ? { note: `as ${name}` } : { problem: JSON.stringify(called) };
    });
    await score.test('the server got the calls', async () => {
      const texts = echo.calls.map(({ args }) => args['text']);
      return texts.join() === [TEXT, TEXT].join() ? {} : { problem: texts.join() };
    });
  } finally {
    await end(proxy);
    await gateway.close();
    await echo.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}
