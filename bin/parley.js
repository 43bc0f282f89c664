#!/usr/bin/env node
import { existsSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';

// The first calls wait until their servers are reached. V8 takes them for what all calls are like, and would put every
// later one into the old generation, where it lies until the next full collection.
setFlagsFromString('--no-allocation-site-pretenuring');

const entry = new URL('../dist/cli/main.js', import.meta.url);
if (!existsSync(entry)) {
  console.error('parley: it is not built yet; run: npm run build');
  process.exit(1);
}

const { main } = await import(entry.href);
const { endProcess } = await import(new URL('end-process.js', entry).href);
endProcess(await main(process.argv.slice(2)));
