#!/usr/bin/env node
/** The server of `era-bridge/legacy.mjs` as a program that announces changes of its tools and records its calls. */

import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { LegacyServer } from '../../fixtures/era-bridge/legacy.mjs';

/** @param {object} entry */
const record = (entry) =>
  appendFileSync(process.env['LEDGER'] ?? '/dev/null', `${JSON.stringify({ ...entry, pid: process.pid })}\n`);

record({ kind: 'started' });
const server = new LegacyServer({ record, capabilities: { tools: { listChanged: true } } });
const lines = createInterface(process.stdin);
lines.on('line', (line) => {
  void server.receive(JSON.parse(line), (message) => process.stdout.write(`${JSON.stringify(message)}\n`));
});
lines.on('close', () => process.exit(0));
