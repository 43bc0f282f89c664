/** Sends recorded calls to a server again and compares the results: `parley replay`. */
import { globOf } from '../../core/catalog/glob.js';
import { maskValues } from '../../identity/mask-json-values.js';
import type { ClientTool, ClientToolResult, GatewayClient } from './gateway-client.js';

/** The members of a recorded call that the replay needs. */
export interface RecordedCall {
  readonly method?: unknown;
  readonly server?: unknown;
  readonly tool?: unknown;
  readonly requestId?: unknown;
  readonly outcome?: unknown;
  readonly ms?: unknown;
  readonly arguments?: unknown;
  readonly result?: unknown;
  readonly masked?: { readonly arguments?: unknown };
  readonly omitted?: unknown;
}

export interface ReplayOptions {
  readonly client: Pick<GatewayClient, 'tools' | 'call'>;
  /** Whether to send also calls of tools that do not declare to be read-only. */
  readonly active: boolean;
  /** JSON pointers of values that may differ; `*` matches any characters. */
  readonly ignore: readonly string[];
  /** Time limit for a call without any message of the tool, in milliseconds. */
  readonly timeout: number;
}

/** One place of a result that differs. */
export interface Difference {
  /** The JSON pointer. */
  readonly at: string;
  readonly recorded: string;
  readonly replayed: string;
}

export interface ReplayedCall {
  readonly tool: string;
  readonly requestId?: string;
  /** `skipped`: the call was not sent. */
  readonly status: 'same' | 'differs' | 'skipped';
  /** The reason why the call was not sent, or how much was compared. */
  readonly note?: string;
  readonly recordedMs?: number;
  readonly replayedMs?: number;
  readonly differences: readonly Difference[];
}

const MOST_DIFFERENCES = 20;
const LONGEST_SHOWN = 120;
const MOST_LEVELS = 64;

/** Sends the calls one after the other. A call is sent once, whatever its outcome. */
export async function* replay(
  calls: Iterable<RecordedCall>,
  { client, active, ignore, timeout }: ReplayOptions,
): AsyncGenerator<ReplayedCall> {
  const tools = await client.tools();
  const ignored = ignore.map(globOf);
  for (const call of calls) {
    const tool = String(call.tool);
    const common = {
      tool,
      ...(typeof call.requestId === 'string' && { requestId: call.requestId }),
      ...(typeof call.ms === 'number' && { recordedMs: call.ms }),
    };
    const target = toolNamed(tools, call);
    const note = obstacle(call, target, active);
    if (note !== undefined || !target) {
      const missing = call.method === 'tools/call' && !target;
      const differences = missing ? [{ at: '', recorded: 'the tool exists', replayed: 'there is no such tool' }] : [];
      yield { ...common, status: missing ? 'differs' : 'skipped', ...(note !== undefined && { note }), differences };
      continue;
    }
    const began = performance.now();
    const replayed = await client.call(target.name, call.arguments as object, { timeout }).catch(failureOf);
    const replayedMs = Math.round((performance.now() - began) * 10) / 10;
    const compared = compare(call, replayed, (at) => ignored.some((glob) => glob.test(at)));
    const status = compared.differences.length > 0 ? 'differs' : 'same';
    yield { ...common, status, replayedMs, ...compared };
  }
}

/** The tool with the recorded name. An endpoint of several servers adds a prefix to the name. */
function toolNamed(tools: readonly ClientTool[], { tool, server }: RecordedCall): ClientTool | undefined {
  const names = [tool, `${String(server)}__${String(tool)}`];
  return tools.find(({ name }) => name === names[0]) ?? tools.find(({ name }) => name === names[1]);
}

/** The reason why a call cannot or must not be sent. */
function obstacle(call: RecordedCall, target: ClientTool | undefined, active: boolean): string | undefined {
  if (call.method !== 'tools/call' || typeof call.tool !== 'string') return 'not a call of a tool';
  if (call.outcome !== 'ok' && call.outcome !== 'error') return `the recorded call ended with ${String(call.outcome)}`;
  if (typeof call.arguments !== 'object' || call.arguments === null)
    return 'recorded without its arguments; record with --arguments';
  if (call.masked?.arguments !== undefined) return 'its arguments contain masked secrets';
  if (target && !active && target.annotations?.['readOnlyHint'] !== true)
    return 'the tool does not declare to be read-only; send it with --active';
  return undefined;
}

interface Failure {
  readonly failure: string;
}

const failureOf = (error: unknown): Failure => ({ failure: error instanceof Error ? error.message : String(error) });

function compare(
  { outcome, result }: RecordedCall,
  replayed: ClientToolResult | Failure,
  ignores: (pointer: string) => boolean,
): { readonly differences: readonly Difference[]; readonly note?: string } {
  const failed = 'failure' in replayed;
  if (failed || outcome === 'error') {
    if (failed && outcome === 'error') return { differences: [], note: 'both calls failed' };
    const difference = failed
      ? { at: '', recorded: 'a result', replayed: shown(replayed.failure) }
      : { at: '', recorded: 'an error', replayed: 'a result' };
    return { differences: [difference] };
  }
  if (result === undefined) return { differences: [], note: 'only the outcome was compared; record with --results' };
  const differences: Difference[] = [];
  // The recording contains masks in place of secrets, so the new result is masked in the same way before the
  // comparison.
  differ(answerOf(result), answerOf(maskValues(replayed).value), '', 0, (difference) => {
    if (differences.length < MOST_DIFFERENCES && !ignores(difference.at)) differences.push(difference);
    return differences.length < MOST_DIFFERENCES;
  });
  return { differences };
}

/** The parts of a result that come from the tool itself. */
function answerOf(result: unknown): object {
  const { content, structuredContent, isError } = (result ?? {}) as ClientToolResult;
  return { content, structuredContent, isError: isError === true };
}

type Report = (difference: Difference) => boolean;

/** Reports each place that differs, until a report returns false. */
function differ(a: unknown, b: unknown, at: string, level: number, report: Report): boolean {
  if (Object.is(a, b)) return true;
  const both = typeof a === 'object' && typeof b === 'object' && a !== null && b !== null;
  if (!both || Array.isArray(a) !== Array.isArray(b) || level > MOST_LEVELS)
    return report({ at, recorded: shown(a), replayed: shown(b) });
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>];
  for (const key of new Set([...Object.keys(left), ...Object.keys(right)])) {
    const inner = `${at}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    if (!differ(left[key], right[key], inner, level + 1, report)) return false;
  }
  return true;
}

function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = JSON.stringify(value);
  return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}...` : text;
}
