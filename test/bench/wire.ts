/** The tool call of the bench in both eras, and its answer. */
export type Era = 'modern' | 'legacy';

export const MODERN_DATE = '2026-07-28';
export const LEGACY_DATE = '2025-06-18';
export const TOOL = 'read';
export const SIZES = [200, 100_000, 1_000_000] as const;

/** All ids have the same width, so that messages differ only in fixed positions. */
export const FIRST_ID = 10_000_000;
export const ID_WIDTH = 8;

export const markOf = (id: number | string): string => `mark-${id}`;

const LINE = 'The quick brown fox said "good morning" to the lazy dog, and the dog did not look up at all.\n';

/** Typical tool text: lines with some quotes. Together with the mark it has `size` characters. */
export function fillerOf(size: number): string {
  const length = size - ID_WIDTH - markOf('').length;
  return LINE.repeat(Math.ceil(length / LINE.length)).slice(0, length);
}

export const textOf = (mark: string, filler: string): string => `${mark}${filler}`;

const clientInfo = { name: 'bench', version: '1.0.0' };

export function callText(era: Era, tool: string, size: number, id: number): string {
  const params = {
    name: tool,
    arguments: { size, mark: markOf(id) },
    ...(era === 'modern' && {
      _meta: {
        'io.modelcontextprotocol/protocolVersion': MODERN_DATE,
        'io.modelcontextprotocol/clientInfo': clientInfo,
        'io.modelcontextprotocol/clientCapabilities': {},
      },
    }),
  };
  return JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params });
}

export const INITIALIZE = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: LEGACY_DATE, capabilities: {}, clientInfo },
});
export const INITIALIZED = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' });

export function httpText(
  url: URL,
  method: string,
  body: string,
  headers: Readonly<Record<string, string | undefined>>,
): string {
  let head = `${method} ${url.pathname} HTTP/1.1\r\nhost: ${url.host}\r\naccept: application/json, text/event-stream\r\n`;
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) head += `${name}: ${value}\r\n`;
  return `${head}content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

export const callHeaders = (era: Era, tool: string, session: string | undefined): Record<string, string | undefined> =>
  era === 'modern'
    ? { 'mcp-protocol-version': MODERN_DATE, 'mcp-method': 'tools/call', 'mcp-name': tool }
    : { 'mcp-protocol-version': LEGACY_DATE, 'mcp-session-id': session };

export interface Job {
  readonly url: string;
  readonly era: Era;
  readonly tool: string;
  readonly size: number;
  readonly connections: number;
  /** The token, sent as `Authorization: Bearer`. */
  readonly token?: string;
  /** The duration, or the number of calls. */
  readonly milliseconds?: number;
  readonly calls?: number;
}

export interface Figures {
  readonly calls: number;
  readonly seconds: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  readonly wrong: number;
  /** The first wrong answer. */
  readonly sample?: string;
  /** CPU microseconds of the generator per call: the cost of the measurement itself. */
  readonly own: number;
}
