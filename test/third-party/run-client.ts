/** Runs one client against the gateway and collects its results. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ClientSnippet, clientSnippets } from '../../src/inbound/mcp/client-snippets.js';
import type { Client } from './clients.js';
import { connectWith, listsOf } from './lists.js';
import { executable, executables, workFolder } from './packages.js';
import type { Example } from './servers.js';

/** An example of a server, under the names of the whole gateway. */
export type Job = Example & { readonly id: number };

export interface Report {
  /** The names of the tools that the client found; undefined if it cannot list them. */
  readonly tools: readonly string[] | undefined;
  /** The answer to each job, or the error, by its id. */
  readonly answers: ReadonlyMap<number, { readonly text?: string; readonly error?: string }>;
}

const DRIVERS = fileURLToPath(new URL('drivers', import.meta.url));
const MOST_TIME = 10 * 60_000;

/** The URL of the gateway, and its token. */
export interface Target {
  readonly url: string;
  readonly token?: string;
}

/** Throws if the client as a whole fails: it does not start, does not connect, or crashes. */
export async function runClient(client: Client, target: Target, jobs: readonly Job[]): Promise<Report> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-client-'));
  try {
    const doable = jobs.filter(({ kind }) => client.can.includes(kind));
    switch (client.how) {
      case 'snippet':
        return await runProgram(client, programOf(client, snippetOf(client, target)), folder, doable);
      case 'program':
        return await runProgram(client, { args: [join(DRIVERS, client.driver!), target.url] }, folder, doable);
      case 'inspector':
        return await runInspector(client, target.url, folder, doable);
      case 'stdio':
        return await runStdio(client, target, doable);
      case 'health':
        return await checkHealth(client, target, folder);
    }
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

function snippetOf({ snippet, name }: Client, { url, token }: Target): ClientSnippet {
  const found = clientSnippets(url, token === undefined ? {} : { token }).find(({ id }) => id === snippet);
  if (!found) throw new Error(`there is no snippet "${snippet}" for ${name}`);
  return found;
}

interface Program {
  readonly args: readonly string[];
  /** Whether the program itself prints a list of names before it does the jobs. */
  readonly prints?: true;
}

/** The text of the snippet, with a line for the jobs of the test after the line that prints. */
function programOf({ driver, variable }: Client, { language, text }: ClientSnippet): Program {
  if (language === 'python') {
    const printing = /^( *)print\(.*\)$/m;
    if (!printing.test(text)) throw new Error(`the snippet prints nothing:\n${text}`);
    const added = text.replace(printing, (line, indent: string) => `${line}\n${indent}await add(${variable})`);
    return { args: ['-c', `from ${driver!.replace(/\.py$/, '')} import add\n${added}`], prints: true };
  }
  const printing = /^console\.log\(.*\);$/m;
  if (!printing.test(text)) throw new Error(`the snippet prints nothing:\n${text}`);
  const added = text.replace(printing, (line) => `${line}\nawait add(${variable});`);
  const source = JSON.stringify(new URL(`drivers/${driver}`, import.meta.url).href);
  return { args: ['--input-type=module', '-e', `import { add } from ${source};\n${added}`], prints: true };
}

async function runProgram(client: Client, program: Program, folder: string, jobs: readonly Job[]): Promise<Report> {
  const file = join(folder, 'jobs.json');
  await writeFile(file, JSON.stringify(jobs));
  const python = client.package.registry === 'pypi';
  const command = python ? executable(client.package, 'python') : process.execPath;
  const { stdout } = await run(command, program.args, {
    cwd: python ? folder : workFolder(client.package),
    env: { ...environment(folder), JOBS: file, PYTHONPATH: DRIVERS, PYTHONDONTWRITEBYTECODE: '1' },
  });
  if (program.prints && !/^\[\s*'/.test(stdout))
    throw new Error(`the snippet does not print a list of tools first, but: ${stdout.slice(0, 200)}`);
  const told = stdout
    .split('\n')
    .filter((line) => line.startsWith('RESULT '))
    .map((line) => JSON.parse(line.slice('RESULT '.length)) as Told);
  const tools = told.find((line) => line.tools)?.tools;
  if (!tools) throw new Error(`the program reported no tools: ${stdout.slice(-500)}`);
  const answers = new Map(told.flatMap(({ job, text, error }) => (job === undefined ? [] : [[job, { text, error }]])));
  return { tools, answers: answers as Report['answers'] };
}

interface Told {
  readonly tools?: readonly string[];
  readonly job?: number;
  readonly text?: string;
  readonly error?: string;
}

/** The command line of the Inspector: one process per request. */
async function runInspector(client: Client, url: string, folder: string, jobs: readonly Job[]): Promise<Report> {
  const ask = async (...args: string[]): Promise<Record<string, unknown>> => {
    const inspector = [executable(client.package, 'mcp-inspector'), '--cli', url, '--transport', 'http'];
    const { stdout } = await run(process.execPath, [...inspector, ...args], { cwd: folder, env: environment(folder) });
    return JSON.parse(stdout) as Record<string, unknown>;
  };
  const { tools } = (await ask('--method', 'tools/list')) as { tools: { name: string }[] };
  const answers = new Map<number, { text?: string; error?: string }>();
  for (const job of jobs) {
    try {
      answers.set(job.id, { text: texts(await ask(...inspectorArgs(job))) });
    } catch (error) {
      answers.set(job.id, { error: (error as Error).message });
    }
  }
  return { tools: tools.map(({ name }) => name), answers };
}

function inspectorArgs(job: Job): string[] {
  if (job.kind === 'read') return ['--method', 'resources/read', '--uri', job.uri];
  const given = Object.entries(job.arguments).map(
    ([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  return job.kind === 'call'
    ? ['--method', 'tools/call', '--tool-name', job.name, ...given.flatMap((each) => ['--tool-arg', each])]
    : ['--method', 'prompts/get', '--prompt-name', job.name, ...given.flatMap((each) => ['--prompt-args', each])];
}

/** Every text in a result, at any depth. Throws a tool error. */
function texts(result: unknown): string {
  if (typeof result !== 'object' || result === null) return '';
  if ('isError' in result && result.isError === true) throw new Error(JSON.stringify(result));
  return Object.entries(result)
    .map(([key, value]) => (key === 'text' && typeof value === 'string' ? value : texts(value)))
    .filter((text) => text !== '')
    .join('\n');
}

/**
 * The command of the configuration file, with a client of the official SDK in place of the program that reads the file.
 */
async function runStdio(client: Client, target: Target, jobs: readonly Job[]): Promise<Report> {
  const { mcpServers } = JSON.parse(snippetOf(client, target).text) as {
    mcpServers: { parley: { command: string; args: string[]; env?: Record<string, string> } };
  };
  const { command, args, env = {} } = mcpServers.parley;
  // npx uses the package that is installed in the folder.
  const connected = await connectWith({ command, args, env, cwd: workFolder(client.package) }, client.declares);
  try {
    const answers = new Map<number, { text?: string; error?: string }>();
    for (const job of jobs) {
      try {
        answers.set(job.id, { text: texts(await perform(connected, job)) });
      } catch (error) {
        answers.set(job.id, { error: (error as Error).message });
      }
    }
    const { tools } = await listsOf(connected);
    return { tools: tools.map(({ name }) => name), answers };
  } finally {
    await connected.close();
  }
}

function perform(client: Awaited<ReturnType<typeof connectWith>>, job: Job): Promise<object> {
  if (job.kind === 'read') return client.readResource({ uri: job.uri });
  const { name } = job;
  if (job.kind === 'call') return client.callTool({ name, arguments: job.arguments as Record<string, unknown> });
  return client.getPrompt({ name, arguments: job.arguments as Record<string, string> });
}

/** Runs the command of the snippet, and the command that shows whether the server is connected. */
async function checkHealth(client: Client, target: Target, folder: string): Promise<Report> {
  const env = {
    ...environment(folder),
    PATH: `${executables(client.package)}:${process.env['PATH']}`,
    DISABLE_AUTOUPDATER: '1',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  };
  await run('sh', ['-c', snippetOf(client, target).text], { cwd: folder, env });
  const { stdout } = await run('sh', ['-c', 'claude mcp list'], { cwd: folder, env });
  const line = stdout.split('\n').find((each) => each.startsWith('parley: '));
  if (!line?.includes(target.url) || !/Connected/.test(line)) throw new Error(`it is not connected: ${stdout}`);
  return { tools: undefined, answers: new Map() };
}

/** The environment of a new user: a new home folder, and no variables of the user who runs the test. */
export function environment(home: string): Record<string, string> {
  const kept = ['PATH', 'LANG', 'SSL_CERT_FILE', 'NODE_EXTRA_CA_CERTS'].flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return { ...Object.fromEntries(kept), HOME: home, TMPDIR: tmpdir() };
}

export function run(
  command: string,
  args: readonly string[],
  { cwd, env }: { readonly cwd: string; readonly env: Readonly<Record<string, string>> },
): Promise<{ stdout: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], timeout: MOST_TIME });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk: Buffer) => {
      stdout += chunk.toString();
    });
    child.stderr.on('data', (chunk: Buffer) => {
      stderr = (stderr + chunk.toString()).slice(-2_000);
    });
    child.once('error', reject);
    child.once('close', (code, signal) => {
      if (code === 0) resolve({ stdout });
      else reject(new Error(`ended with ${signal ?? code}: ${stderr.trim() || stdout.slice(-2_000).trim()}`));
    });
  });
}
