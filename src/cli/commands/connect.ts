import { statSync } from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { jsonMember, removeJsonMember, setJsonMember } from '../../config/json-edit.js';
import { nearest } from '../../config/problem.js';
import { CLIENTS, type ClientFiles, placesOf } from '../client-config-files.js';
import { CONFIG, type Command, type CommandLine, HELP, JSON_OUTPUT, UsageError } from '../command.js';
import { gatewayAddress, URL_FLAG } from '../gateway-api.js';
import { BIN } from '../own-program.js';
import { applyChange, DRY_RUN, readIfExists, YES } from '../write-file.js';

const NAMES = CLIENTS.map(({ id }) => id).join(', ');

export const CONNECT: Command = {
  name: 'connect',
  operands: ['CLIENT'],
  summary: 'Write the gateway into the configuration of an MCP client.',
  details:
    `The clients are ${NAMES}. The command shows the change\n` +
    "of the client's file, asks, and keeps the old text as FILE.bak. It changes only the entry of the gateway: comments\n" +
    'and the order of other entries stay. --remove removes the entry. If the gateway needs a token, the entry refers to\n' +
    'the environment variable PARLEY_TOKEN, and the token itself is not written.',
  flags: [
    CONFIG,
    URL_FLAG,
    { name: 'name', value: 'NAME', description: 'The name of the entry. Default: parley.' },
    { name: 'server', value: 'NAME', description: 'Connect to this server only. Default: all servers.' },
    {
      name: 'stdio',
      description: 'Write an entry that starts the gateway as a program over stdio, instead of an entry with its URL.',
    },
    { name: 'project', description: "Write the file of this folder instead of the user's." },
    { name: 'file', value: 'FILE', description: 'Write this file of the client.' },
    { name: 'remove', description: 'Remove the entry.' },
    YES,
    DRY_RUN,
    JSON_OUTPUT,
    HELP,
  ],
  examples: [
    'parley connect cursor',
    'parley connect vscode --project --dry-run',
    'parley connect claude --remove --yes',
  ],
  run: connect,
};

async function connect(line: CommandLine): Promise<number> {
  const { io, operands, text, given } = line;
  const client = clientNamed(operands[0] ?? '');
  const name = text('name') ?? 'parley';
  const file = fileOf(client, line);
  const before = readIfExists(file);
  const at = [client.container, name];
  const current = parsed(file, () => jsonMember(before ?? '', at));
  const wanted = given('remove') ? undefined : entryOf(client, line);
  const report = (state: string): number => {
    if (given('json'))
      io.stdout(`${JSON.stringify({ client: client.id, file, name, state, entry: wanted ?? null })}\n`);
    return 0;
  };
  if (isDeepStrictEqual(current, wanted)) {
    if (!given('json'))
      io.stdout(`${client.title} ${given('remove') ? 'has no entry' : 'already has the entry'} ${name} in ${file}.\n`);
    return report('unchanged');
  }
  const after = parsed(file, () =>
    wanted === undefined ? removeJsonMember(before ?? '', at) : setJsonMember(before ?? '', at, wanted),
  );
  if (!(await applyChange({ file, before, after, backup: true }, line))) return report('not written');
  if (given('json')) return report(wanted === undefined ? 'removed' : 'written');
  io.stdout(
    `${wanted === undefined ? 'Removed the entry' : 'Wrote the entry'} ${name}. Restart ${client.title}, or reload its servers.\n`,
  );
  if (JSON.stringify(wanted ?? '').includes('PARLEY_TOKEN'))
    io.stdout(`Set the environment variable PARLEY_TOKEN for ${client.title} to a token of the gateway.\n`);
  return 0;
}

function clientNamed(id: string): ClientFiles {
  const found = CLIENTS.find((client) => client.id === id.toLowerCase());
  if (found) return found;
  const near = nearest(
    id,
    CLIENTS.map((client) => client.id),
  );
  throw new UsageError(
    `${JSON.stringify(id)} is not a known client; ${near === undefined ? `the clients are ${NAMES}` : `did you mean ${near}?`}`,
    CONNECT,
  );
}

function fileOf(client: ClientFiles, { io, text, given }: CommandLine): string {
  const named = text('file');
  if (named !== undefined) return path.resolve(io.cwd, named);
  if (!given('project')) return client.user(placesOf(io));
  if (client.project === undefined) throw new UsageError(`${client.title} has no file for a project`, CONNECT);
  return path.join(io.cwd, client.project);
}

/** A syntax error of the client's file is reported with the file, and the file stays as it is. */
function parsed<T>(file: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new Error(`${file} cannot be changed: ${(error as Error).message}`);
  }
}

/** The entry in the form of each client. A token is a reference to a variable, in the client's own syntax. */
function entryOf({ id }: ClientFiles, line: CommandLine): object {
  const { text, given } = line;
  const server = text('server')?.toLowerCase();
  if (given('stdio')) return { ...(id === 'vscode' && { type: 'stdio' }), ...program(line, server) };
  const { url, token } = gatewayAddress(line);
  const endpoint = `${url}/mcp${server === undefined ? '' : `/${server}`}`;
  const secured = token !== undefined;
  const headers = (variable: string): object =>
    secured ? { headers: { Authorization: `Bearer \${${variable}}` } } : {};
  switch (id) {
    case 'claude': {
      // Claude Desktop connects only to programs that it starts. The program mcp-remote connects to a URL, and expands
      // variables in headers.
      const header = secured ? ['--header', `Authorization: Bearer \${PARLEY_TOKEN}`] : [];
      return { command: 'npx', args: ['-y', 'mcp-remote', endpoint, ...header] };
    }
    case 'claude-code':
      return { type: 'http', url: endpoint, ...headers('PARLEY_TOKEN') };
    case 'vscode':
      return { type: 'http', url: endpoint, ...headers('env:PARLEY_TOKEN') };
    case 'windsurf':
      return { serverUrl: endpoint, ...headers('env:PARLEY_TOKEN') };
    default:
      return { url: endpoint, ...headers('env:PARLEY_TOKEN') };
  }
}

function program({ io, text }: CommandLine, server: string | undefined): object {
  const named =
    text('config') ?? ['parley.yaml', 'parley.yml', 'parley.json'].find((name) => isFile(path.join(io.cwd, name)));
  if (named === undefined)
    throw new UsageError('no configuration found in this folder; name a file with --config FILE', CONNECT);
  const config = path.resolve(io.cwd, named);
  if (!isFile(config)) throw new Error(`${config} does not exist`);
  const own = server === undefined ? [] : ['--server', server];
  return { command: process.execPath, args: [BIN, 'stdio', '--config', config, ...own] };
}

function isFile(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false })?.isFile() === true;
}
