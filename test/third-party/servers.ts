/** The third-party servers of the test, with an example of each function. None needs a network. */
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ALL_CAPABILITIES, type Capability } from './clients.js';
import type { Package } from './packages.js';

/** A request to a server, and a text that the answer contains. */
export type Example = {
  readonly name: string;
  readonly answer: string;
  /** The example is tried only with clients that have all these capabilities. */
  readonly needs?: readonly Capability[];
} & (
  | { readonly kind: 'call'; readonly arguments: object }
  | { readonly kind: 'read'; readonly uri: string }
  | { readonly kind: 'prompt'; readonly arguments: object }
);

/** The files and addresses that the servers of one run use. */
export interface Workplace {
  readonly folder: string;
  /** A web page on this machine. */
  readonly page: string;
}

export interface Server {
  /** Its name in the configuration of the gateway. */
  readonly name: string;
  readonly package: Package;
  /** The executable of the package, and its arguments. */
  readonly command: string;
  readonly args?: (place: Workplace, port: number) => readonly string[];
  readonly env?: (place: Workplace, port: number) => Readonly<Record<string, string>>;
  /** The path of its endpoint if it is a web server; otherwise it uses stdio. */
  readonly http?: { readonly path: string; readonly transport: 'http' | 'sse' };
  /** A second package that the server starts, with the name of its executable. */
  readonly wraps?: { readonly package: Package; readonly command: string };
  /** The number of tools for a client without capabilities. */
  readonly tools: number;
  /** Whether a client with capabilities sees other tools. */
  readonly byCapabilities?: true;
  readonly examples: (place: Workplace) => readonly Example[];
}

const npm = (name: string, version: string, more: Partial<Package> = {}): Package => ({
  registry: 'npm',
  name,
  version,
  ...more,
});
const pypi = (name: string, version: string, more: Partial<Package> = {}): Package => ({
  registry: 'pypi',
  name,
  version,
  ...more,
});

/** Pins the first generation of the Python SDK for servers that need it but allow any version. */
const MCP_1 = { with: { mcp: '1.30.0' } };

const EVERYTHING = npm('@modelcontextprotocol/server-everything', '2026.8.31');
const EVERYTHING_EXAMPLES: readonly Example[] = [
  { kind: 'call', name: 'get-sum', arguments: { a: 2, b: 3 }, answer: 'The sum of 2 and 3 is 5.' },
  {
    kind: 'read',
    uri: 'demo://resource/static/document/architecture.md',
    name: 'architecture.md',
    answer: '# Everything Server',
  },
  { kind: 'prompt', name: 'args-prompt', arguments: { city: 'Oslo' }, answer: "What's weather in Oslo?" },
  { kind: 'call', name: 'get-roots-list', arguments: {}, answer: 'file:///third-party', needs: ALL_CAPABILITIES },
  {
    kind: 'call',
    name: 'trigger-sampling-request',
    arguments: { prompt: 'When does the ferry leave?', maxTokens: 20 },
    answer: 'a sampled answer',
    needs: ALL_CAPABILITIES,
  },
  {
    kind: 'call',
    name: 'trigger-elicitation-request',
    arguments: {},
    answer: 'an elicited name',
    needs: ALL_CAPABILITIES,
  },
];

/** The server that offers tools by the capabilities of its client, over each transport it has. */
export const CAPABILITY_DEPENDENT: readonly Server[] = (
  [
    ['everything-stdio', 'stdio', undefined],
    ['everything-http', 'streamableHttp', { path: '/mcp', transport: 'http' }],
    ['everything-sse', 'sse', { path: '/sse', transport: 'sse' }],
  ] as const
).map(([name, mode, http]) => ({
  name,
  package: EVERYTHING,
  command: 'mcp-server-everything',
  args: () => [mode],
  env: (_, port) => ({ PORT: String(port) }),
  ...(http && { http }),
  tools: 13,
  examples: () => EVERYTHING_EXAMPLES,
}));

export const SERVERS: readonly Server[] = [
  {
    name: 'everything',
    package: EVERYTHING,
    command: 'mcp-server-everything',
    tools: 13,
    byCapabilities: true,
    examples: () => EVERYTHING_EXAMPLES,
  },
  {
    name: 'files',
    package: npm('@modelcontextprotocol/server-filesystem', '2026.8.31'),
    command: 'mcp-server-filesystem',
    args: ({ folder }) => [join(folder, 'files')],
    tools: 14,
    examples: ({ folder }) => [
      {
        kind: 'call',
        name: 'read_text_file',
        arguments: { path: join(folder, 'files/note.txt') },
        answer: 'Fjord ferries leave at noon.',
      },
    ],
  },
  {
    name: 'memory',
    package: npm('@modelcontextprotocol/server-memory', '2026.8.31'),
    command: 'mcp-server-memory',
    env: ({ folder }) => ({ MEMORY_FILE_PATH: join(folder, 'memory.jsonl') }),
    tools: 9,
    examples: () => [
      { kind: 'call', name: 'search_nodes', arguments: { query: 'Ada' }, answer: 'wrote the first program' },
      { kind: 'read', uri: 'memory://knowledge-graph', name: 'knowledge-graph', answer: 'wrote the first program' },
    ],
  },
  {
    name: 'thinking',
    package: npm('@modelcontextprotocol/server-sequential-thinking', '2026.8.31'),
    command: 'mcp-server-sequential-thinking',
    tools: 1,
    examples: () => [
      {
        kind: 'call',
        name: 'sequentialthinking',
        arguments: { thought: 'One step is enough', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 },
        answer: 'thoughtHistoryLength',
      },
    ],
  },
  {
    name: 'hello',
    package: npm('mcp-hello-world', '1.1.2'),
    command: 'mcp-hello-world',
    tools: 3,
    examples: () => [
      { kind: 'call', name: 'add', arguments: { a: 2, b: 3 }, answer: 'The sum is: 5' },
      { kind: 'read', uri: 'hello://world', name: 'hello', answer: 'Hello, World from the resource!' },
      { kind: 'prompt', name: 'helpful-assistant', arguments: {}, answer: 'You are a helpful assistant.' },
    ],
  },
  {
    name: 'arithmetic',
    package: npm('@wrtnlabs/calculator-mcp', '0.2.1'),
    command: 'calculator-mcp',
    tools: 6,
    examples: () => [{ kind: 'call', name: 'add', arguments: { a: 2, b: 3 }, answer: 'The sum of 2 and 3 is 5' }],
  },
  {
    name: 'lint',
    package: npm('@eslint/mcp', '0.3.13'),
    command: 'mcp',
    tools: 1,
    examples: ({ folder }) => [
      {
        kind: 'call',
        name: 'lint-files',
        arguments: { filePaths: [join(folder, 'lint/bad.js')] },
        answer: "Unexpected 'debugger' statement.",
      },
    ],
  },
  {
    // Its tools need a browser, so only its list is tested.
    name: 'browser',
    package: npm('@playwright/mcp', '0.0.83'),
    command: 'playwright-mcp',
    args: (_, port) => ['--host', '127.0.0.1', '--port', `${port}`, '--allowed-hosts', `127.0.0.1:${port}`],
    http: { path: '/sse', transport: 'sse' },
    tools: 25,
    examples: () => [],
  },
  {
    name: 'time',
    package: pypi('mcp-proxy', '0.13.0'),
    command: 'mcp-proxy',
    wraps: { package: pypi('mcp-server-time', '2026.10.19'), command: 'mcp-server-time' },
    args: (_, port) => ['--host', '127.0.0.1', '--port', String(port)],
    http: { path: '/sse', transport: 'sse' },
    tools: 2,
    examples: () => [
      {
        kind: 'call',
        name: 'convert_time',
        arguments: { source_timezone: 'UTC', time: '12:00', target_timezone: 'Asia/Tokyo' },
        answer: 'T21:00:00+09:00',
      },
    ],
  },
  {
    name: 'git',
    package: pypi('mcp-server-git', '2026.10.19'),
    command: 'mcp-server-git',
    args: ({ folder }) => ['--repository', join(folder, 'repository')],
    tools: 12,
    examples: ({ folder }) => [
      {
        kind: 'call',
        name: 'git_log',
        arguments: { repo_path: join(folder, 'repository') },
        answer: 'Begin the logbook',
      },
    ],
  },
  {
    name: 'fetch',
    package: pypi('mcp-server-fetch', '2026.10.24'),
    command: 'mcp-server-fetch',
    args: () => ['--allow-private-ips'],
    tools: 1,
    examples: ({ page }) => [
      { kind: 'call', name: 'fetch', arguments: { url: page }, answer: 'Fjord ferries leave at noon.' },
      { kind: 'prompt', name: 'fetch', arguments: { url: page }, answer: 'Fjord ferries leave at noon.' },
    ],
  },
  {
    name: 'sqlite',
    package: pypi('mcp-server-sqlite', '2025.4.25', MCP_1),
    command: 'mcp-server-sqlite',
    args: ({ folder }) => ['--db-path', join(folder, 'data.sqlite')],
    tools: 6,
    examples: () => [
      {
        kind: 'call',
        name: 'read_query',
        arguments: { query: 'SELECT 6 * 7 AS answer' },
        answer: "[{'answer': 42}]",
      },
      {
        kind: 'read',
        uri: 'memo://insights',
        name: 'Business Insights Memo',
        answer: 'No business insights have been discovered yet.',
      },
      { kind: 'prompt', name: 'mcp-demo', arguments: { topic: 'tides' }, answer: 'tides' },
    ],
  },
  {
    name: 'calculator',
    package: pypi('mcp-server-calculator', '0.2.1', MCP_1),
    command: 'mcp-server-calculator',
    tools: 1,
    examples: () => [{ kind: 'call', name: 'calculate', arguments: { expression: '6*7' }, answer: '42' }],
  },
  {
    name: 'formats',
    package: pypi('mcp-json-yaml-toml', '0.10.2'),
    command: 'mcp-json-yaml-toml',
    tools: 8,
    examples: () => [
      {
        kind: 'call',
        name: 'constraint_validate',
        arguments: { constraint_name: 'INT', value: 'forty-two' },
        answer: '"valid":false',
      },
      { kind: 'read', uri: 'lmql://constraints', name: 'list_all_constraints', answer: 'Valid integer (digits only)' },
      {
        kind: 'prompt',
        name: 'explain_config',
        arguments: { file_path: '/etc/example.toml' },
        answer: "explain the configuration file at '/etc/example.toml'",
      },
    ],
  },
  {
    name: 'excel',
    package: pypi('excel-mcp-server', '2.2.2'),
    command: 'excel-mcp-server',
    args: ({ folder }, port) => ['streamable-http', '--allow-dir', join(folder, 'books'), '--port', String(port)],
    http: { path: '/mcp', transport: 'http' },
    tools: 46,
    examples: () => [
      {
        kind: 'call',
        name: 'create_workbook',
        arguments: { path: 'ledger.xlsx', sheets: ['Ledger'], overwrite: true },
        answer: 'ledger.xlsx',
      },
    ],
  },
];

/** Creates the files that the servers use. */
export async function createFiles(folder: string): Promise<void> {
  for (const name of ['files', 'lint', 'books', 'repository']) await mkdir(join(folder, name), { recursive: true });
  await writeFile(join(folder, 'files/note.txt'), 'Fjord ferries leave at noon.\n');
  const ada = { type: 'entity', name: 'Ada', entityType: 'person', observations: ['wrote the first program'] };
  await writeFile(join(folder, 'memory.jsonl'), `${JSON.stringify(ada)}\n`);
  await writeFile(join(folder, 'lint/package.json'), '{ "type": "module" }\n');
  await writeFile(join(folder, 'lint/eslint.config.js'), "export default [{ rules: { 'no-debugger': 'error' } }];\n");
  await writeFile(join(folder, 'lint/bad.js'), 'debugger;\n');
  const git = (...args: string[]) => promisify(execFile)('git', ['-C', join(folder, 'repository'), ...args]);
  await git('init', '--quiet');
  const author = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com'];
  await git(...author, 'commit', '--quiet', '--allow-empty', '--message', 'Begin the logbook');
}
