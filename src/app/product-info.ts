import { existsSync, readFileSync } from 'node:fs';
import type { Implementation } from '../protocol/mcp/model.js';

const MANIFEST = new URL('../../package.json', import.meta.url);

export const { version: VERSION } = JSON.parse(readFileSync(MANIFEST, 'utf8')) as { readonly version: string };

/**
 * The file with the commit of the build, beside the compiled files. Absent if the build did not run in a repository.
 */
const COMMIT = new URL('../commit.txt', import.meta.url);

/** The version, and the commit of the build if known. */
export const BUILD = existsSync(COMMIT) ? `${VERSION}, commit ${readFileSync(COMMIT, 'utf8').trim()}` : VERSION;

/** The name and version that the gateway sends to clients, servers and agents. */
export const INFO: Implementation = { name: 'parley', title: 'Parley', version: VERSION };
