/** A gateway with its authorization server and one user, for the tests of this folder. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { BIN, type GatewayConfig, type GatewayOptions, type RunningGateway, startGateway } from '../support/gateway.js';
import { freePort } from '../support/services.js';

export const PASSWORD = 'correct horse battery staple';
export const OPERATOR = 'operator-token-0123456789abcdef';

const UNITS = fileURLToPath(new URL('../../examples/units.mjs', import.meta.url));

export interface OAuthGateway extends RunningGateway {
  /** The URL of the MCP endpoint. */
  readonly mcp: string;
}

export interface StandOptions extends GatewayOptions {
  readonly builtin?: object;
  readonly config?: GatewayConfig;
  readonly port?: number;
}

export async function startOAuthGateway(options: StandOptions = {}): Promise<OAuthGateway> {
  const { builtin, config, port, ...rest } = options;
  const gateway = await startGateway(
    {
      listen: `127.0.0.1:${port ?? (await freePort())}`,
      servers: { units: { command: process.execPath, args: [UNITS] } },
      auth: { tokens: [{ name: 'operator', token: OPERATOR, admin: true }], builtin: { enabled: true, ...builtin } },
      ...config,
    },
    rest,
  );
  return { ...gateway, mcp: `${gateway.url}/mcp` };
}

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command of the gateway's program beside it. */
export function parley(args: readonly string[], input = ''): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [BIN, ...args], { stdio: ['pipe', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, stdout, stderr }));
    child.stdin.end(input);
  });
}

export async function addUser(gateway: Pick<RunningGateway, 'file'>, name = 'ada', roles = ''): Promise<void> {
  const extra = roles === '' ? [] : ['--roles', roles];
  const { code, stderr } = await parley(['users', 'add', name, '--config', gateway.file, ...extra], `${PASSWORD}\n`);
  if (code !== 0) throw new Error(stderr);
}

const META = 'io.modelcontextprotocol';

/** Lists the tools with an access token, without any client library. */
export const listTools = (endpoint: string, token: string): Promise<Response> =>
  request(endpoint, token, 'tools/list', {});

/** Opens a stream that only receives changes of lists. */
export const listen = (endpoint: string, token: string): Promise<Response> =>
  request(endpoint, token, 'subscriptions/listen', { notifications: { toolsListChanged: true } });

const request = (endpoint: string, token: string, method: string, params: object): Promise<Response> =>
  fetch(endpoint, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      authorization: `Bearer ${token}`,
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method,
      params: { ...params, _meta: { [`${META}/protocolVersion`]: '2026-07-28', [`${META}/clientCapabilities`]: {} } },
    }),
  });
