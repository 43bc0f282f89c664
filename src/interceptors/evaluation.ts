import type { Catalog } from '../core/catalog/catalog.js';
import { type Glob, globOf } from '../core/catalog/glob.js';
import type { EvaluatedCall, Evaluation } from '../core/evaluation/evaluator.js';
import { isObject, type JsonObject } from '../protocol/jsonrpc/raw.js';
import { newSpanId, type Tracing } from '../telemetry/tracing/finished-span.js';
import { ATTRIBUTES as A, EVALUATE, spanName } from '../telemetry/tracing/names.js';
import { argumentsText, resultText } from './call-contents.js';
import { bounded, lineOf, MOST_NAME } from './call-log.js';
import type { CallObserver, EndedCall } from './observed-calls.js';

/** An evaluator, and the selection of the calls that it gets. */
export interface ScopedEvaluator {
  /** Patterns of names of servers and agents, and of tools. An empty list selects all. */
  readonly servers: readonly string[];
  readonly tools: readonly string[];
  /** The part of the calls that the evaluator gets, from 0 to 1. */
  readonly sample: number;
  /** Whether the evaluator gets the arguments and the result. */
  readonly contents: boolean;
  /** Whether a call of this caller has room in the queue. */
  accepts(caller: string): boolean;
  add(call: EvaluatedCall): void;
}

/** Maximum size of the contents of a call, in bytes. A call with larger contents is evaluated without its contents. */
const MOST_CONTENTS = 1024 * 1024;
/** The operations that send a message to an agent. */
const MESSAGES: ReadonlySet<string> = new Set(['SendMessage', 'SendStreamingMessage']);

/**
 * Passes finished calls of tools and messages to agents to the evaluators that want them. Contents are copied only if
 * one of them wants the contents of this call. A call that reached no server or agent, or has not ended, has no score.
 */
export function evaluation(
  evaluators: readonly ScopedEvaluator[],
  catalog: Pick<Catalog, 'upstream'>,
  random: () => number = Math.random,
): CallObserver | undefined {
  if (evaluators.length === 0) return undefined;
  const scoped = evaluators.map((evaluator) => ({ evaluator, matches: matcherOf(evaluator) }));
  const offer = (call: EndedCall): void => {
    const { context, outcome } = call;
    const { target } = context;
    if (!context.notes.forwarded || (outcome !== 'ok' && outcome !== 'error')) return;
    if (target?.kind !== 'tool' && !(target?.kind === 'agent' && MESSAGES.has(context.method))) return;
    const { server: upstream, name } = target;
    const caller = context.caller.principal.key;
    const wanting = scoped
      .filter(({ evaluator, matches }) => random() < evaluator.sample && matches(upstream, name))
      .filter(({ evaluator }) => evaluator.accepts(caller))
      .map(({ evaluator }) => evaluator);
    if (wanting.length === 0) return;
    const facts: Omit<EvaluatedCall, 'json'> = {
      requestId: context.requestId,
      caller,
      protocol: context.protocol,
      upstream: bounded(upstream, MOST_NAME),
      // Control characters are replaced, because servers choose the names and some databases refuse such characters.
      target: bounded(name.replace(/\p{Cc}/gu, '?'), MOST_NAME),
      outcome,
      ms: call.ms,
      span: context.notes.span,
    };
    const line = JSON.stringify({ ...lineOf(call, catalog), requestId: facts.requestId });
    const without = { ...facts, json: Buffer.from(line) };
    const whole = wanting.some(({ contents }) => contents) ? { ...facts, json: withContents(line, call) } : without;
    for (const evaluator of wanting) evaluator.add(evaluator.contents ? whole : without);
  };
  return {
    active: () => true,
    ended: (call) => {
      try {
        offer(call);
      } catch {
        // The definition of a tool may be nested too deeply to be written as JSON. The call itself has succeeded.
      }
    },
  };
}

function matcherOf({ servers, tools }: ScopedEvaluator): (upstream: string, tool: string) => boolean {
  const among = (patterns: readonly string[]): ((name: string) => boolean) => {
    const globs: Glob[] = patterns.map(globOf);
    return (name) => globs.length === 0 || globs.some((glob) => glob.test(name));
  };
  const [server, tool] = [among(servers), among(tools)];
  return (upstream, name) => server(upstream) && tool(name);
}

/** The line of the call with its arguments, its result and the output schema of its tool. The bytes are copied. */
function withContents(line: string, call: EndedCall): Buffer {
  const parts: (readonly [string, Buffer | string])[] = [];
  const { context } = call;
  const add = (name: string, text: Buffer | string | undefined): void => {
    if (text !== undefined) parts.push([name, text]);
  };
  add('arguments', argumentsText(context));
  const size = call.bytes ?? 0;
  add('result', resultText(call, MOST_CONTENTS));
  if (context.protocol === 'mcp') add('outputSchema', schemaText(context.item?.value));
  const bytes = parts.reduce((sum, [, text]) => sum + Buffer.byteLength(text), size > MOST_CONTENTS ? size : 0);
  const chunks: Buffer[] = [Buffer.from(line.slice(0, -1))];
  if (bytes > MOST_CONTENTS) chunks.push(Buffer.from(',"omitted":true'));
  else
    for (const [name, text] of parts)
      chunks.push(Buffer.from(`,"${name}":`), typeof text === 'string' ? Buffer.from(text) : text);
  chunks.push(Buffer.from('}'));
  return Buffer.concat(chunks);
}

/** A definition stays the same object until the list of its server changes. */
const schemaTexts = new WeakMap<JsonObject, string>();

function schemaText(definition: JsonObject | undefined): string | undefined {
  const schema = definition?.['outputSchema'];
  if (!isObject(schema)) return undefined;
  const known = schemaTexts.get(schema) ?? JSON.stringify(schema);
  schemaTexts.set(schema, known);
  return known;
}

/**
 * The span of an evaluation, as a child of the span of its call. The span of the call ends before the evaluation
 * begins, so it cannot carry the score.
 */
export function evaluationSpan(
  tracing: Tracing | undefined,
  name: string,
  call: EvaluatedCall,
  { score, label }: Evaluation,
  ms: number,
): void {
  const parent = call.span;
  if (!tracing || !parent?.sampled) return;
  const ended = performance.now();
  tracing.finished({
    name: spanName(EVALUATE, name),
    kind: 'internal',
    traceId: parent.traceId,
    spanId: newSpanId(),
    state: parent.state,
    parent: parent.spanId,
    remoteParent: false,
    links: [],
    began: ended - ms,
    ended,
    attributes: {
      [A.requestId]: call.requestId,
      [A.evalPlugin]: name,
      [A.evalStatus]: score === null ? 'skipped' : 'success',
      [A.evalDuration]: Math.round(ms * 10) / 10,
      [A.evalType]: call.protocol,
      [A.evaluationName]: name,
      ...(score !== null && { [A.evalScore]: score, [A.evaluationScore]: score }),
      ...(label !== undefined && { [A.evaluationLabel]: label }),
    },
    error: undefined,
  });
}
