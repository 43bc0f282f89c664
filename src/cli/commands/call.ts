import type { ClientTool, ClientToolResult } from '../../app/commands/gateway-client.js';
import { nearest } from '../../config/problem.js';
import type { Command, CommandLine } from '../command.js';
import { UsageError } from '../command.js';
import { gatewayAddress } from '../gateway-api.js';
import { firstLine, GATEWAY_FLAGS, printJson, safeText } from '../gateway-output.js';
import { answerer } from '../server-questions.js';
import { connectionError } from './tools.js';

const DEFAULT_SECONDS = 120;

export const CALL: Command = {
  name: 'call',
  operands: ['TOOL'],
  rest: 'NAME=VALUE',
  summary: 'Call a tool through the running gateway.',
  details:
    'NAME=VALUE is an argument of the tool; its type comes from the schema of the tool. NAME:=JSON gives any JSON value. On\n' +
    'a terminal, questions of the server are asked as prompts and progress is shown. The exit code is 1 if the tool fails.',
  flags: [
    { name: 'arguments', value: 'JSON', description: 'All arguments as one JSON object.' },
    {
      name: 'timeout',
      value: 'SECONDS',
      description: `Time without any message of the tool. Default: ${DEFAULT_SECONDS}.`,
    },
    ...GATEWAY_FLAGS,
  ],
  examples: [
    'parley call weather__forecast city=Oslo days=3',
    'parley call files__write path=a.txt lines:=["a","b"] --json',
  ],
  run: call,
};

async function call(line: CommandLine): Promise<number> {
  const { io, operands, given, text } = line;
  const [name = '', ...written] = operands;
  const address = gatewayAddress(line);
  const { url, token } = address;
  const timeout = secondsOf(text('timeout'), CALL, DEFAULT_SECONDS);
  const { withGateway } = await import('../../app/commands/gateway-client.js');
  let shown = false;
  const progress = (step: { progress: number; total?: number | undefined; message?: string | undefined }): void => {
    shown = true;
    const share = step.total === undefined ? String(step.progress) : `${step.progress} of ${step.total}`;
    io.redraw(`${share}${step.message === undefined ? '' : ` ${firstLine(step.message, 60)}`}`);
  };
  const result = await withGateway({ url: `${url}/mcp`, token, answer: answerer(io) }, async (gateway) => {
    const tool = toolNamed(name, await gateway.tools());
    const args = { ...whole(text('arguments')), ...argumentsOf(written, tool) };
    return gateway.call(name, args, { timeout, ...(io.terminal && !given('json') && { progress }) });
  }).catch((error: unknown) => {
    throw error instanceof UsageError ? error : connectionError(address, error);
  });
  if (shown) io.redraw('');
  if (given('json')) printJson(line, result);
  else (result.isError === true ? io.stderr : io.stdout)(`${resultText(result)}\n`);
  return result.isError === true ? 1 : 0;
}

export function secondsOf(written: string | undefined, command: Command, preset: number): number {
  const seconds = Number(written ?? preset);
  if (!(seconds > 0) || seconds > 86_400)
    throw new UsageError('--timeout takes a number of seconds up to 86400', command);
  return seconds * 1000;
}

function toolNamed(name: string, tools: readonly ClientTool[]): ClientTool {
  const found = tools.find((tool) => tool.name === name);
  if (found) return found;
  // If `routing.exposure` is `search`, the list does not contain the tools, but a call by name reaches them.
  if (tools.some((tool) => tool.name === 'call_tool')) return { name, inputSchema: {} };
  const near = nearest(
    name,
    tools.map((tool) => tool.name),
  );
  throw new Error(
    `there is no tool ${JSON.stringify(name)}; ${near === undefined ? 'parley tools lists them' : `did you mean ${near}?`}`,
  );
}

function whole(written: string | undefined): object {
  if (written === undefined) return {};
  const value = parsed(written);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw new UsageError('--arguments takes a JSON object, such as {"city":"Oslo"}', CALL);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Arguments as `name=value` with the type of the schema, or `name:=JSON`. */
export function argumentsOf(
  written: readonly string[],
  { inputSchema }: Pick<ClientTool, 'inputSchema'>,
): Record<string, unknown> {
  const args: Record<string, unknown> = {};
  for (const word of written) {
    const [, name, json, value = ''] = /^([^=:]+)(:?)=(.*)$/s.exec(word) ?? [];
    if (name === undefined)
      throw new UsageError(`${JSON.stringify(word)} is not an argument; write NAME=VALUE or NAME:=JSON`, CALL);
    if (Object.hasOwn(args, name)) throw new UsageError(`the argument ${name} is given twice`, CALL);
    const schema = inputSchema.properties?.[name] as { type?: unknown } | undefined;
    args[name] = json === ':' ? jsonOf(name, value) : typed(name, value, schema?.type);
  }
  return args;
}

function jsonOf(name: string, value: string): unknown {
  const found = parsed(value);
  if (found === undefined) throw new UsageError(`the value of ${name} is not JSON`, CALL);
  return found;
}

function typed(name: string, value: string, type: unknown): unknown {
  const types = [type].flat();
  if (types.includes('string') || type === undefined) return value;
  const found = parsed(value);
  const kind = found === null ? 'null' : Array.isArray(found) ? 'array' : typeof found;
  const fits = found !== undefined && (types.includes(kind) || (kind === 'number' && types.includes('integer')));
  if (!fits) throw new UsageError(`the value of ${name} is not of the type ${types.join(' or ')}`, CALL);
  return found;
}

function resultText({ content, structuredContent }: ClientToolResult): string {
  const lines = (content ?? []).map((block) => {
    if (typeof block['text'] === 'string') return safeText(block['text']);
    const uri = block['uri'] ?? (block['resource'] as { uri?: unknown } | undefined)?.uri;
    const size = typeof block['data'] === 'string' ? `, ${Math.floor((block['data'].length * 3) / 4)} bytes` : '';
    return `[${firstLine(String(block['type']))}${uri === undefined ? '' : ` ${firstLine(String(uri), 300)}`}${block['mimeType'] === undefined ? '' : ` ${firstLine(String(block['mimeType']))}`}${size}]`;
  });
  if (lines.length > 0) return lines.join('\n');
  return structuredContent === undefined
    ? 'The tool returned nothing.'
    : safeText(JSON.stringify(structuredContent, null, 2));
}
