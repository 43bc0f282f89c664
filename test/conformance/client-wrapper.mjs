#!/usr/bin/env node
/**
 * The command under test of the suite's client scenarios: `client-wrapper.mjs <url of the suite's server>`.
 * Starts the gateway with that server as its only upstream and plays the client in front of it, so what the suite sees
 * is the gateway. With PARLEY_CONFORMANCE_DIRECT=1 the client talks to the suite itself, to check the driver.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { authSettings, driveAuth } from './auth-driver.mjs';
import { drive } from './client-driver.mjs';

const GATEWAY = fileURLToPath(new URL('../../bin/parley.js', import.meta.url));
/** Ends the wait for a gateway that hangs. Long, because on a busy machine a start takes more than 15 s. */
const START_TIMEOUT_MS = 120_000;

const suiteUrl = process.argv.at(-1) ?? '';
const scenario = process.env['MCP_CONFORMANCE_SCENARIO'] ?? '';
const isAuth = scenario.startsWith('auth/');
const context = JSON.parse(process.env['MCP_CONFORMANCE_CONTEXT'] ?? '{}');
const throughGateway = process.env['PARLEY_CONFORMANCE_DIRECT'] !== '1';
const gateway = throughGateway ? await startGateway(suiteUrl) : { url: suiteUrl, stop: async () => {}, log: () => '' };

// The suite has given up or has ended: stop everything that this process started.
const giveUp = () => void gateway.stop().finally(() => process.exit(1));
process.on('SIGTERM', giveUp);
process.stdin.on('end', giveUp).resume();

const given = process.env['MCP_CONFORMANCE_PROTOCOL_VERSION'] ?? '2025-11-25';
let exitCode = 0;
try {
  const run = {
    url: gateway.url,
    // The client must be able to show the link of a sign-in, so it has 2025-11-25 even if the server is older.
    specVersion: isAuth && given < '2025-11-25' ? '2025-11-25' : given,
    throughGateway,
    context,
  };
  await (isAuth ? driveAuth(run) : drive(scenario, run));
} catch (error) {
  console.error(error, `\nGateway log:\n${gateway.log()}`);
  exitCode = 1;
}
// The suite waits until its server has no connection left.
await gateway.stop();
process.exit(exitCode);

/** @param {string} upstream */
async function startGateway(upstream) {
  const directory = await mkdtemp(join(tmpdir(), 'parley-conformance-'));
  const listen = `127.0.0.1:${await freePort()}`;
  const config = join(directory, 'parley.json');
  await writeFile(
    config,
    JSON.stringify({
      listen,
      data: join(directory, 'data'),
      servers: { suite: { url: upstream, ...(isAuth && { auth: await authSettings(scenario, context, upstream) }) } },
      // Private addresses are allowed, because the suite's authorization server is on this machine too.
      ...(isAuth && { egress: { allowPrivate: true } }),
    }),
  );
  const child = spawn(process.execPath, [GATEWAY, 'serve', '--config', config], { stdio: ['ignore', 'pipe', 'pipe'] });

  let log = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      log += chunk;
    });
  }
  const exited = once(child, 'exit');

  const stop = async () => {
    child.kill('SIGTERM');
    const killing = setTimeout(() => child.kill('SIGKILL'), 2000);
    await exited;
    clearTimeout(killing);
    await rm(directory, { recursive: true, force: true });
  };

  const deadline = Date.now() + START_TIMEOUT_MS;
  for (;;) {
    const healthy = await fetch(`http://${listen}/health`).then(
      (response) => response.ok,
      () => false,
    );
    if (healthy) return { url: `http://${listen}/mcp/suite`, stop, log: () => log };
    if (child.exitCode !== null || Date.now() > deadline) {
      console.error(`The gateway did not start:\n${log}`);
      await stop();
      process.exit(1);
    }
    await delay(50);
  }
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  server.close();
  await once(server, 'close');
  return port;
}
