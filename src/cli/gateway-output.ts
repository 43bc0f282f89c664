import { stripVTControlCharacters } from 'node:util';
import type { CommandLine } from './command.js';
import { CONFIG, type Flag, HELP, JSON_OUTPUT } from './command.js';
import { type GatewayAddress, GatewayRefusal, requestJson, TOKEN_FLAG, URL_FLAG } from './gateway-api.js';

/** The flags of every command that talks to a running gateway. */
export const GATEWAY_FLAGS: readonly Flag[] = [CONFIG, URL_FLAG, TOKEN_FLAG, JSON_OUTPUT, HELP];

/** Text of tools and agents for a terminal: line ends and tabs stay, other control characters are removed. */
export function safeText(text: string): string {
  return stripVTControlCharacters(text).replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g, '');
}

/** Texts that others wrote, on one line of bounded length. */
export function firstLine(text: string | undefined, most = 100): string {
  const line = safeText(text ?? '')
    .replace(/\s+/g, ' ')
    .trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

const MOST_PAGES = 1_000;

/** Every item of a list of the management API; undefined if the gateway has no such route. */
export async function listAll(address: GatewayAddress, path: string): Promise<Record<string, unknown>[] | undefined> {
  const items: Record<string, unknown>[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MOST_PAGES; page++) {
    const query = `?limit=200${cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
    const answer = (await optional(address, `${path}${query}`)) as { items?: unknown; next?: unknown } | undefined;
    if (answer === undefined || !Array.isArray(answer.items)) return undefined;
    items.push(...(answer.items as Record<string, unknown>[]));
    if (typeof answer.next !== 'string') return items;
    cursor = answer.next;
  }
  return items;
}

/** The answer at a path; undefined if the gateway has no such route. */
export async function optional(address: GatewayAddress, path: string): Promise<unknown> {
  try {
    return await requestJson(address, path);
  } catch (error) {
    if (error instanceof GatewayRefusal && error.status === 404) return undefined;
    throw error;
  }
}

export function printJson({ io }: CommandLine, value: unknown): void {
  io.stdout(`${JSON.stringify(value, null, 2)}\n`);
}
