import { readFileSync } from 'node:fs';
import type { Implementation } from '../protocol/mcp/model.js';

const MANIFEST = new URL('../../package.json', import.meta.url);

export const { version: VERSION } = JSON.parse(readFileSync(MANIFEST, 'utf8')) as { readonly version: string };

/** The name and version that the gateway sends to clients, servers and agents. */
export const INFO: Implementation = { name: 'parley', title: 'Parley', version: VERSION };
