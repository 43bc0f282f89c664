import { sleep } from '../../core/timing.js';
import type { Revision } from '../../protocol/mcp/revisions/index.js';
import { isObject, type Json, parseJson } from '../json.js';
import { lineEvidence } from '../wire/evidence.js';
import type { HttpWire } from '../wire/http-wire.js';
import type { Pace } from '../wire/pace.js';
import { NOTHING, type Received, type Reply, replyOf } from '../wire/reply.js';
import { isRequest } from './observed.js';
import {
  type CallOptions,
  type Dialer,
  harmless,
  initializeParams,
  messageOf,
  type OpenOptions,
  type Peer,
  type SseStream,
} from './peer.js';

/** Text in both directions: lines of stdio, frames of WebSocket, or posts and events of HTTP+SSE. */
export interface Channel {
  readonly transport: 'stdio' | 'sse' | 'ws';
  readonly http?: HttpWire;
  readonly sse?: SseStream;
  readonly dialer?: Dialer;
  readonly secrets: readonly string[];
  /** Sends one message. For HTTP+SSE: the status of the post. Rejects if the channel is closed. */
  send(text: string): Promise<Partial<Received>>;
  /** Sets the receiver of messages. Messages that arrived before are delivered at once. */
  receive(listener: (text: string) => void): void;
  /** Sets the listener for the end of the channel. */
  onEnd(listener: (why: string) => void): void;
  stray(): readonly string[];
  close(): Promise<number | undefined>;
}

/** Time for an unwanted answer to bytes that are not JSON, in milliseconds. */
const QUIET = 300;
/** A program gets this many times the usual time for its first answer. */
const STARTS = 3;
/** Most messages that are kept while no request waits. */
const MAX_LOOSE = 1_000;

/** stdio, WebSocket and HTTP+SSE: answers arrive on a channel that all requests share. */
export class ChannelPeer implements Peer {
  readonly log: Reply[] = [];
  readonly early: unknown[] = [];
  readonly asked = new Set<unknown>();
  opening!: Reply;
  readonly transport: Channel['transport'];
  readonly http?: HttpWire;
  readonly sse?: SseStream;
  readonly dialer?: Dialer;
  private ids = 0;
  private ended: string | undefined;
  private arrived: unknown[] = [];
  private utf8 = true;
  private changed: () => void = () => {};

  private constructor(
    private readonly channel: Channel,
    readonly revision: Revision,
    private readonly pace: Pace,
  ) {
    this.transport = channel.transport;
    if (channel.http) this.http = channel.http;
    if (channel.sse) this.sse = channel.sse;
    if (channel.dialer) this.dialer = channel.dialer;
    channel.receive((text) => {
      if (!pace.received(text.length)) return;
      const message = parseJson(text);
      for (const each of [message].flat()) if (isObject(each) && isRequest(each)) this.asked.add(each['id']);
      if (this.arrived.length < MAX_LOOSE) this.arrived.push(message);
      if (text.includes('\ufffd')) this.utf8 = false;
      this.changed();
    });
    channel.onEnd((why) => {
      this.ended = why;
      this.changed();
    });
  }

  /** Opens the connection. Check `opening` for its outcome. */
  static async open(channel: Channel, revision: Revision, pace: Pace, how: OpenOptions = {}): Promise<ChannelPeer> {
    const peer = new ChannelPeer(channel, revision, pace);
    try {
      if (!how.bare) await peer.begin(how);
    } catch (error) {
      // The program must not outlive an assessment whose time is over.
      await channel.close();
      throw error;
    }
    return peer;
  }

  private async begin({ version, capabilities }: OpenOptions): Promise<void> {
    // A program needs time to start.
    const patience = this.transport === 'stdio' ? { limit: STARTS * this.pace.options.answer } : {};
    if (this.revision.era === 'modern') {
      this.opening = await this.call('server/discover', {}, patience);
      return;
    }
    const params = initializeParams(version ?? this.revision.date, capabilities);
    this.opening = await this.call('initialize', params, patience);
    this.early.push(...this.opening.messages.filter((each) => each !== this.opening.response));
    if (this.opening.result === undefined) return;
    const sent = messageOf(this.revision, 'notifications/initialized', undefined, undefined, {});
    await this.quietly(JSON.stringify(sent));
  }

  /** Sends without waiting for an answer. */
  private async quietly(text: string): Promise<void> {
    await this.pace.turn();
    await this.channel.send(text).catch(() => {});
  }

  get alive(): boolean {
    return this.ended === undefined;
  }

  async call(method: string, params?: Json, options: CallOptions = {}): Promise<Reply> {
    const id = options.id ?? ++this.ids;
    const sent = messageOf(this.revision, method, params, id, options);
    const done = options.enough ?? ((messages: readonly unknown[]) => messages.some((each) => answers(each, id)));
    return this.exchange(method, sent, JSON.stringify(sent), done, options.limit);
  }

  async notify(method: string, params?: Json, options: CallOptions = {}): Promise<Reply> {
    const sent = messageOf(this.revision, method, params, undefined, options);
    const text = JSON.stringify(sent);
    const id = `after-${++this.ids}`;
    const next = messageOf(this.revision, harmless(this.revision), undefined, id, {});
    const reply = await this.exchange(
      method,
      sent,
      text,
      (messages) => messages.some((each) => answers(each, id)),
      options.limit,
      JSON.stringify(next),
    );
    // The answer to the request that followed does not answer the notification.
    const messages = reply.messages.filter((each) => !answers(each, id));
    return this.replace(reply, replyOf(method, sent, { ...reply, messages }, reply.evidence));
  }

  aside(message: Json): Promise<void> {
    return this.quietly(JSON.stringify(message));
  }

  async send(text: string, options: CallOptions = {}): Promise<Reply> {
    const done = options.enough ?? ((messages: readonly unknown[]) => messages.length > 0);
    const limit = options.limit ?? (options.enough ? undefined : QUIET);
    return this.exchange('', undefined, text, done, limit);
  }

  stray(): readonly string[] {
    return this.channel.stray();
  }

  close(): Promise<number | undefined> {
    return this.channel.close();
  }

  private async exchange(
    method: string,
    sent: unknown,
    text: string,
    done: (messages: readonly unknown[]) => boolean,
    limit?: number,
    then?: string,
  ): Promise<Reply> {
    await this.pace.turn();
    const started = performance.now();
    this.arrived = [];
    this.utf8 = true;
    let failure: string | undefined;
    let http: Partial<Received> = {};
    try {
      http = await this.channel.send(text);
      if (then !== undefined) await this.channel.send(then);
    } catch (error) {
      failure = this.ended ?? (error as Error).message;
    }
    const wait = this.pace.limit(limit);
    if (failure === undefined && !(await this.until(() => done(this.arrived), wait)))
      failure = this.ended ?? (sent === undefined ? undefined : `no answer within ${Math.round(wait)} ms`);
    if (failure !== undefined) this.pace.check();
    const milliseconds = Math.round(performance.now() - started);
    const received: Received = {
      ...NOTHING,
      ...http,
      messages: [...this.arrived],
      utf8: this.utf8,
      ended: failure === undefined,
      failure,
      milliseconds,
    };
    const reply = replyOf(method, sent, received, lineEvidence(text, received, this.channel.secrets));
    this.log.push(reply);
    return reply;
  }

  private replace(old: Reply, by: Reply): Reply {
    this.log[this.log.indexOf(old)] = by;
    return by;
  }

  /** Waits until the condition holds, the channel ends or the time is over. */
  private async until(holds: () => boolean, milliseconds: number): Promise<boolean> {
    const over = new AbortController();
    this.changed = () => {
      if (holds() || this.ended !== undefined) over.abort();
    };
    this.changed();
    if (!over.signal.aborted) await sleep(milliseconds, { until: over.signal });
    this.changed = () => {};
    return holds();
  }
}

const answers = (message: unknown, id: unknown): boolean =>
  (Array.isArray(message) ? message : [message]).some(
    (each) => isObject(each) && !('method' in each) && (each['id'] === id || (each['id'] ?? null) === null),
  );
