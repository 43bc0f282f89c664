import path from 'node:path';
import type { Offer } from '../app/running-gateway.js';
import { columns } from '../telemetry/terminal-style.js';
import { BIN } from './own-program.js';

export interface Welcome {
  readonly url: string;
  readonly offer: Offer;
  /** The absolute paths of the configuration in use and of its data folder. */
  readonly file: string;
  readonly data: string;
  /** The working directory of the reader. */
  readonly cwd: string;
}

/** The text at the first start: the endpoint, the tools, and the configuration to paste into a client. */
export function welcomeText({ url, offer, file, data, cwd }: Welcome): string {
  const endpoint = `${url}/mcp`;
  const names = [...offer.servers.map(({ name }) => name), ...offer.missing.map(({ server }) => server)];
  const overHttp = { mcpServers: { parley: { type: 'http', url: endpoint } } };
  const overStdio = {
    mcpServers: {
      parley: {
        command: process.execPath,
        args: [BIN, 'stdio', '--config', file],
        env: { PARLEY_DATA: data },
      },
    },
  };
  return [
    'This is the quickstart: two example servers, one modern and one legacy, behind one endpoint, and an A2A agent.',
    `Endpoint\n${columns([
      ['all servers', endpoint],
      ...names.map((name): Row => [`${name} alone`, `${endpoint}/${name}`]),
      ['A2A agent', `${url}/a2a/helper`],
    ])}`,
    `Tools\n${columns([
      ...offer.servers.map(({ name, tools }): Row => [name, tools.join('  ')]),
      ...offer.missing.map(({ server, reason }): Row => [server, `(not available: ${reason})`]),
    ])}`,
    `For Claude Code, run:\n  claude mcp add --transport http parley ${endpoint}`,
    `For a client that speaks HTTP, paste:\n${indented(overHttp)}`,
    `For a client that starts programs, paste:\n${indented(overStdio)}`,
    `For other clients open ${url}/ in a browser.`,
    `Your own servers: copy ${nearby(file, cwd)} to parley.yaml, change it, and start again. Stop with Ctrl-C.`,
  ]
    .map((part) => `\n${part}\n`)
    .join('');
}

function nearby(file: string, cwd: string): string {
  const relative = path.relative(cwd, file);
  return relative.startsWith('..') ? file : relative;
}

type Row = readonly [string, string];

function indented(value: object): string {
  return JSON.stringify(value, null, 2).replace(/^/gm, '  ');
}
