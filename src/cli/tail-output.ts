import { stripVTControlCharacters } from 'node:util';
import { sentenceOf } from '../telemetry/log-sentences.js';
import { oneLine } from '../telemetry/terminal-style.js';
import { followEvents, type GatewayEvent } from './follow-events.js';
import type { GatewayAddress } from './gateway-api.js';

const LONGEST_LINE = 64 * 1024;

/** Follows the calls of a running gateway until it ends the stream, or the signal aborts. */
export const followTail = (
  gateway: GatewayAddress,
  filter: Readonly<Record<string, string>>,
  signal: AbortSignal,
): AsyncGenerator<GatewayEvent> =>
  followEvents(gateway, { path: '/api/v1/tail', query: filter, longest: LONGEST_LINE }, signal);

/** The line of a call for a person. Clients choose some names, so control characters are removed. */
export function tailText({ event, data }: GatewayEvent): string | undefined {
  if (event === 'dropped') return `# ${String(data['lines'])} calls were not shown: the reader was too slow\n`;
  if (event !== 'call') return undefined;
  const { time, replica, ...fields } = data;
  const at = String(time).slice(11, 23);
  const where = typeof replica === 'string' ? ` @${replica}` : '';
  return `${stripVTControlCharacters(oneLine(`${at} ${sentenceOf(fields) ?? ''}${where}`))}\n`;
}
