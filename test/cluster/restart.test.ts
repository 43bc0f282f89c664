/** One gateway with its embedded database: stored calls outlive the process. */

import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { accept, answersTo, FORM, ModernClient, textOf } from '../era-bridge/support/clients.js';
import { HttpFixture } from '../fixtures/era-bridge/http.mjs';
import { startGateway } from '../support/gateway.js';

test('a parked call at a server with resumable replies continues after kill -9 and a restart', async () => {
  const server = await new HttpFixture({ revision: '2025-11-25', eventIds: true }).start();
  const data = mkdtempSync(join(tmpdir(), 'parley-restart-'));
  const config = { log: { level: 'warn' }, servers: { s: { url: server.url, revision: '2025-11-25' } } };
  const first = await startGateway(config, { data });
  const args = { key: 'restarted' };
  const question = await new ModernClient(`${first.url}/mcp`, FORM).call('s__ask', args);
  const exit = once(first.process, 'exit');
  first.process.kill('SIGKILL');
  await exit;
  await first.close();
  const second = await startGateway(config, { data });
  try {
    const retry = {
      inputResponses: answersTo(question, accept({ answer: 'later' })),
      requestState: question.result.requestState,
    };
    const answer = await new ModernClient(`${second.url}/mcp`, FORM).call('s__ask', args, retry);
    expect(textOf(answer)).toBe('restarted: later');
    const again = await new ModernClient(`${second.url}/mcp`, FORM).call('s__ask', args, retry);
    expect(textOf(again)).toBe('restarted: later');
    const other = { ...retry, inputResponses: answersTo(question, accept({ answer: 'another' })) };
    const changed = await new ModernClient(`${second.url}/mcp`, FORM).call('s__ask', args, other);
    expect(changed.error?.data).toMatchObject({ reason: 'invalid_state' });
    expect(server.entries.filter(({ kind }) => kind === 'run')).toHaveLength(1);
  } finally {
    await second.close();
    await server.close();
    rmSync(data, { recursive: true, force: true });
  }
});
