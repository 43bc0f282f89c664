#!/usr/bin/env node
import { existsSync } from 'node:fs';

const entry = new URL('../dist/cli/main.js', import.meta.url);
if (!existsSync(entry)) {
  console.error('parley: it is not built yet; run: npm run build');
  process.exit(1);
}

const { main } = await import(entry.href);
process.exitCode = await main(process.argv.slice(2));
