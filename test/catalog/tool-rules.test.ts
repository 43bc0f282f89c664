/** `servers.<name>.tools`: which tools of a server are offered, and under which names, in lists and calls alike. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../era-bridge/support/wire.js';
import { connectClient, type EraClient, type Json, type Revision } from '../eras/peers.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { CountedServer } from './counted-server.js';
import { toolsOf } from './support.js';

const RULES = {
  allow: ['read*', 'write', 'format', 'purge', 'no-such-tool'],
  deny: ['*_secret'],
  rename: { read: 'open', write: 'format', purge: 'shred', lost: 'found' },
};
const OWN = ['read', 'read_secret', 'write', 'format', 'purge', 'remove'];
const OFFERED = ['format', 'open', 'shred'];

let files: CountedServer;
let other: CountedServer;
let gateway: RunningGateway;
const clients: EraClient[] = [];

beforeAll(async () => {
  files = await CountedServer.start({ era: 'legacy', tools: OWN });
  other = await CountedServer.start({ era: 'modern', tools: ['read', 'remove'] });
  gateway = await startGateway({
    policy: { approve: { tools: ['my_files__shred'] } },
    // In the format of LiteLLM.
    mcp_servers: {
      my_files: { url: files.url, tools: RULES },
      other: { url: other.url, allowed_tools: ['read'], disallowed_tools: ['remove'] },
    },
  });
});
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
});
afterAll(async () => {
  await gateway?.close();
  await files?.close();
  await other?.close();
});

async function connect(revision: Revision, path: string): Promise<EraClient> {
  const client = await connectClient(revision, { transport: 'http', url: `${gateway.url}${path}`, config: '' });
  clients.push(client);
  return client;
}

const textIn = (result: Json): string => (result['content'] as { text: string }[])[0]!.text;

describe.each<Revision>(['2025-11-25', '2026-07-28'])('a client of %s', (revision) => {
  test('sees the offered tools under their new names', async () => {
    expect(await toolsOf(await connect(revision, '/mcp/my_files'))).toEqual(OFFERED);
    const all = [...OFFERED.map((name) => `my_files__${name}`), 'other__read'];
    expect(await toolsOf(await connect(revision, '/mcp'))).toEqual(all);
  });

  test('calls a tool by its new name', async () => {
    const all = await connect(revision, '/mcp');
    const alone = await connect(revision, '/mcp/my_files');
    expect(textIn(await all.call('my_files__open'))).toBe('read');
    expect(textIn(await all.call('my_files.open'))).toBe('read');
    expect(textIn(await all.call('open'))).toBe('read');
    expect(textIn(await alone.call('open'))).toBe('read');
    // If a new name equals the original name of another tool, the new name counts.
    expect(textIn(await alone.call('format'))).toBe('write');
    expect(textIn(await all.call('other__read'))).toBe('read');
  });

  test('is asked for approval under the new name, whichever name it calls', async () => {
    const all = await connect(revision, '/mcp');
    const alone = await connect(revision, '/mcp/my_files');
    for (const [client, name] of [
      [all, 'my_files__shred'],
      [all, 'my_files.shred'],
      [all, 'shred'],
      [alone, 'shred'],
    ] as const)
      expect(textIn(await client.call(name))).toContain("needs a person's approval");
  });

  test('cannot call a tool that is not offered, under any name', async () => {
    const all = await connect(revision, '/mcp');
    const alone = await connect(revision, '/mcp/my_files');
    const calls = (files.asked.get('tools/call') ?? 0) + (other.asked.get('tools/call') ?? 0);
    for (const name of ['read', 'write', 'purge', 'remove', 'read_secret', 'found', 'no-such-tool']) {
      await expect(alone.call(name)).rejects.toThrow(`Unknown tool: ${name}`);
      await expect(all.call(`my_files__${name}`)).rejects.toThrow(`Unknown tool: ${name}`);
    }
    await expect(all.call('other__remove')).rejects.toThrow('Unknown tool: remove');
    expect((files.asked.get('tools/call') ?? 0) + (other.asked.get('tools/call') ?? 0)).toBe(calls);
  });
});

test('rules without effect are logged once, with their key and the names of the existing tools', async () => {
  const said = await eventually(
    () =>
      gateway
        .log()
        .split('\n')
        .filter((line) => line.includes('servers.my_files.tools')),
    (lines) => lines.length >= 3,
  );
  const messages = said.map((line) => (JSON.parse(line) as { msg: string }).msg);
  expect(messages).toEqual([
    'servers.my_files.tools.allow: "no-such-tool" matches no tool of the server (read, read_secret, write, format, purge, remove)',
    'servers.my_files.tools.rename: "write" takes the name of tool "format", which is therefore not offered',
    'servers.my_files.tools.rename: there is no tool "lost" (read, read_secret, write, format, purge, remove)',
  ]);
});
