import type { Passed } from '../../core/a2a/agent.js';
import type { EventReader } from '../../protocol/a2a/dialect.js';
import type { StreamResponse } from '../../protocol/a2a/model.js';
import { onOneLine } from '../../protocol/jsonrpc/json-pieces.js';
import { type JsonValue, RawObject } from '../../protocol/jsonrpc/raw.js';
import type { Abortable } from '../http/index.js';
import type { AgentContext } from './agent-context.js';
import { invalidReply } from './agent-errors.js';
import { EventQueue } from './event-queue.js';
import type { EventSink } from './http-exchange.js';

/** Pairs a decoded value with its text. The text is kept only if decoding changed nothing. */
export function passed<T>(value: T, wire: Passed<JsonValue>, plain: boolean): Passed<T> {
  if (!plain || wire.text === undefined || (value as unknown) !== wire.value) return { value };
  return { value, text: onOneLine(wire.text) };
}

/** The request with the tenant of the interface and no other tenant (C-2). */
export function tenanted<T extends { tenant?: string }>(request: Passed<T>, tenant: string | undefined): Passed<T> {
  const { value, text } = request;
  if (value.tenant === tenant) return request;
  const { tenant: _, ...rest } = value;
  const changed = (tenant === undefined ? rest : { ...rest, tenant }) as T;
  if (text === undefined) return { value: changed };
  const edited = RawObject.at(Buffer.from(text)).edit({
    tenant: tenant === undefined ? undefined : JSON.stringify(tenant),
  });
  return { value: changed, text: edited.bytes().toString('utf8') };
}

/**
 * Time that an agent gets to end its stream after the last event. The connection of an ended stream can be used again.
 */
const END_GRACE = 250;

/** Decodes the events of a stream. `read` removes the envelope, and throws an error that the envelope contains. */
export class StreamSink implements EventSink {
  readonly queue: EventQueue<Passed<StreamResponse>>;
  private stream: Abortable | undefined;

  constructor(
    private readonly context: AgentContext,
    private readonly reader: EventReader,
    private readonly plain: boolean,
    private readonly read: (event: string, data: Buffer) => Passed<JsonValue>,
  ) {
    this.queue = new EventQueue(context.limits.waiting);
  }

  open(stream: Abortable): void {
    this.stream = stream;
    this.queue.open(stream);
  }

  event(name: string, data: Buffer): void {
    if (this.reader.ended) return;
    this.take(this.read(name, data), data.length);
  }

  /** Handles one event without its envelope. */
  take(wire: Passed<JsonValue>, bytes: number): void {
    for (const event of this.reader.read(wire.value)) this.queue.push(passed(event, wire, this.plain), bytes);
    if (!this.reader.ended) return;
    this.queue.end();
    const { stream } = this;
    if (stream) setTimeout(() => stream.abort(), END_GRACE).unref();
  }

  end(): void {
    this.queue.end();
  }

  fail(error: Error): void {
    this.queue.fail(error);
  }

  /** Resolves with the events when the first event has arrived. */
  async events(): Promise<EventQueue<Passed<StreamResponse>>> {
    if (!(await this.queue.started())) throw invalidReply(this.context, 'ended its stream before the first event');
    return this.queue;
  }
}
