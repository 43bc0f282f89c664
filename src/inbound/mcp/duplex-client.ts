import { Cancellation, type Principal } from '../../core/caller.js';
import { Quota } from '../../core/count-and-byte-limit.js';
import type { View } from '../../core/gateway.js';
import { newRequestId } from '../../core/request-id.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { StructureLimits } from '../../protocol/jsonrpc/json-depth-limit.js';
import {
  type Id,
  type RpcMessage,
  type RpcRequest,
  readIncoming,
  writeError,
  writeNotification,
  writeResult,
} from '../../protocol/jsonrpc/message.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { type Classified, classify } from '../../protocol/mcp/client-version.js';
import type { ModernRequestHandler } from './modern-requests.js';
import type { Refused, ReplyChannel } from './reply-channel.js';
import { Batch } from './session/batch.js';
import { type ClientSession, notUnderstood } from './session/client-session.js';
import type { Carrier, Sessions } from './session/sessions.js';

export interface DuplexClientOptions {
  readonly modern: ModernRequestHandler;
  readonly sessions: Sessions<Carrier>;
  readonly view: View;
  readonly limits: StructureLimits & { readonly batch: number };
  /** The network address of the client, for the audit trail. */
  readonly address?: string | undefined;
  /** Sends one message to the client. */
  write(message: readonly Buffer[]): void;
  /** Called when the client's session has ended, for example because a newer session replaced it. */
  ended?(): void;
  readonly refused?: Refused | undefined;
  /** Called on failures inside the gateway. */
  failed(error: unknown): void;
}

/**
 * A client on a connection that carries messages in both directions: stdio or WebSocket. The client may initialize a
 * session, which then belongs to the connection, send modern requests, or both (mcp.md 5.3).
 */
export class DuplexClient {
  private session: ClientSession | undefined;
  /** Resolves at the end of the running handshake; undefined if no handshake runs. */
  private opening: Promise<void> | undefined;
  /** The messages that wait for the end of the handshake. */
  private readonly early = new Quota(MOST_EARLY);
  private readonly running = new Map<Id, Cancellation>();
  /** The ids of the running requests that are subscriptions. */
  private readonly listening = new Set<Id>();
  /** Whether the connection is closed. */
  private gone = false;

  constructor(private readonly options: DuplexClientOptions) {}

  /** The number of calls without a response; subscriptions are not calls. */
  get busy(): number {
    return this.running.size - this.listening.size + (this.session?.busy ?? 0);
  }

  private write(message: readonly Buffer[]): void {
    if (message.length > 0 && !this.gone) this.options.write(message);
  }

  /** Sends an error to the client: for bytes that are not a message, or for a message that is refused. */
  refuse(error: ProtocolError, id: Id | null = null): void {
    this.options.refused?.(error);
    this.write([notUnderstood(error.detail.id ?? id, error)]);
  }

  /** Handles one message of the client, whose caller `authenticate` returns. */
  async receive(text: Buffer, authenticate: () => Principal | Promise<Principal>): Promise<void> {
    let asked: Id | null | undefined;
    try {
      const { limits } = this.options;
      const incoming = readIncoming(text, limits);
      asked = incoming.kind === 'request' ? incoming.id : incoming.kind === 'batch' ? null : undefined;
      if (incoming.kind === 'batch') {
        if (
          !this.session?.revision.expresses.batches ||
          incoming.items.length > limits.batch ||
          incoming.items.length === 0
        ) {
          throw new ProtocolError(
            'batch_not_allowed',
            'This session does not support batches, or the batch is empty or too large',
          );
        }
        const { session } = this;
        const principal = await authenticate();
        await new Batch(incoming.items, this.channel(), this.options.refused).run((message, to) =>
          session.handle(principal, message, to),
        );
      } else {
        const principal = authenticate();
        await this.message(incoming, principal instanceof Promise ? await principal : principal, text.length);
      }
    } catch (error) {
      if (error instanceof ProtocolError) {
        this.refuse(error, asked);
        return;
      }
      this.options.failed(error);
      // A notification gets no response, not even an error.
      if (asked !== undefined) this.write([notUnderstood(asked, new ProtocolError('internal', 'Internal error'))]);
    }
  }

  private channel(done?: () => void): ReplyChannel {
    return {
      requestId: newRequestId(),
      address: this.options.address,
      send: (message) => this.write([message]),
      finish: (message) => {
        done?.();
        this.write(message);
      },
    };
  }

  private async message(message: RpcMessage, principal: Principal, bytes: number): Promise<void> {
    if (message.kind === 'response') {
      await this.session?.handle(principal, message, this.channel());
      return;
    }
    let classified: Classified;
    try {
      classified = classify(message);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.options.refused?.(error);
      // Only requests that claim to be modern are refused here, so the error has a code of that era (VER-01).
      if (message.kind === 'request') {
        const { row, message: text, data } = error;
        this.write([writeError(message.id, { code: row.modern, message: text, data: data as JsonObject })]);
      }
      return;
    }
    if (classified.kind === 'modern') {
      if (message.kind === 'request') await this.modern(message, principal, classified.envelope);
      else this.cancelled(message.method, message.params.get('requestId'));
    } else if (classified.kind === 'initialize' && message.kind === 'request') {
      // Handshakes run one after the other. The next handshake finds the open session, or no session if the handshake
      // before it failed.
      const release = this.opening && this.early.take(bytes);
      if (this.opening && !release) throw tooEarly(message.id);
      const before = this.opening ?? Promise.resolve();
      const opening = before.then(() => {
        release?.();
        return this.initialize(message, principal);
      });
      const over: Promise<void> = opening
        .catch(() => {})
        .then(() => {
          if (this.opening === over) this.opening = undefined;
        });
      this.opening = over;
      await opening;
    } else await this.inSession(message, principal, bytes);
  }

  private async modern(
    message: RpcRequest,
    principal: Principal,
    envelope: Parameters<ModernRequestHandler['handle']>[0]['envelope'],
  ): Promise<void> {
    const { id } = message;
    if (this.gone) return;
    // Only one cancellation is kept for each id, so of two requests with the same id, one could not be cancelled.
    if (this.running.has(id)) throw new ProtocolError('invalid_request', 'A request with this id is running', { id });
    if (message.method === 'subscriptions/listen' && this.listening.size >= MOST_LISTENS)
      throw new ProtocolError('rate_limited', `A connection may have at most ${MOST_LISTENS} subscriptions`, { id });
    const cancellation = new Cancellation();
    this.running.set(id, cancellation);
    if (message.method === 'subscriptions/listen') this.listening.add(id);
    const done = (): void => {
      if (this.running.get(id) === cancellation) this.forget(id);
    };
    const channel = this.channel(done);
    await this.options.modern.handle({
      principal,
      view: this.options.view,
      message,
      envelope,
      // A cancelled request sends no further messages (STD-06).
      channel: {
        requestId: channel.requestId!,
        address: channel.address,
        send: (text) => !cancellation.cancelled && channel.send(text),
        finish: (text, status, headers) => !cancellation.cancelled && channel.finish(text, status, headers),
      },
      cancellation,
      header: undefined,
    });
  }

  private cancelled(method: string, id: unknown): void {
    if (method !== 'notifications/cancelled' || (typeof id !== 'string' && typeof id !== 'number')) return;
    this.running.get(id)?.cancel();
    this.forget(id);
  }

  private forget(id: Id): void {
    this.running.delete(id);
    this.listening.delete(id);
  }

  private async initialize(message: RpcRequest, principal: Principal): Promise<void> {
    if (this.gone) return;
    if (this.session)
      throw new ProtocolError('invalid_request', 'This connection is already initialized', { id: message.id });
    const { sessions, view, address } = this.options;
    const carrier: Carrier = {
      reachable: true,
      connected: true,
      unsolicited: (text) => this.write([text]),
      ended: () => this.options.ended?.(),
    };
    try {
      const { session, result } = await sessions.open(principal, view, message.params, () => carrier, {
        requestId: newRequestId(),
        address,
        id: message.id,
      });
      this.session = session;
      if (this.gone) this.endSession();
      this.write(writeResult(message.id, [Buffer.from(JSON.stringify(result))]));
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.write([notUnderstood(message.id, error)]);
    }
  }

  private async inSession(message: RpcMessage, principal: Principal, bytes: number): Promise<void> {
    if (this.opening) {
      const release = this.early.take(bytes);
      // Only a request gets an answer; any other message is dropped.
      if (!release && message.kind === 'request') throw tooEarly(message.id);
      if (!release) return;
      await this.opening;
      release();
    }
    if (message.kind === 'notification' && message.method === 'notifications/cancelled')
      this.cancelled(message.method, message.params.get('requestId'));
    if (this.session) await this.session.handle(principal, message, this.channel());
    else if (message.kind === 'request') {
      if (message.method === 'ping') this.write(writeResult(message.id, [Buffer.from('{}')]));
      else
        this.refuse(
          new ProtocolError(
            'invalid_request',
            'The first request must be initialize, or carry the modern request metadata',
          ),
          message.id,
        );
    }
  }

  /** Called when the gateway stops. Ends the subscriptions that are still open (mcp.md 5.5, 1). */
  end(): void {
    for (const id of this.running.keys())
      this.write([writeNotification('notifications/cancelled', { requestId: id, reason: STOPPING })]);
    this.stop(STOPPING);
  }

  /** Called when the connection is closed, so that nobody waits for the running calls. */
  close(): void {
    this.gone = true;
    this.stop('The connection was closed');
  }

  private stop(reason: string): void {
    for (const cancellation of this.running.values()) cancellation.cancel(reason);
    this.running.clear();
    this.listening.clear();
    this.endSession();
  }

  /** A session of a connection is not stored, so ending it does not need the database. */
  private endSession(): void {
    if (this.session) this.options.sessions.end(this.session, 'The connection was closed').catch(() => {});
  }
}

/**
 * Limit on the messages that wait for the end of the handshake. A handshake may take as long as a server takes to
 * answer.
 */
const MOST_EARLY = { count: 1_000, bytes: 4 * 1024 * 1024 } as const;
const STOPPING = 'The gateway is stopping';
/** Limit on the open subscriptions of one connection. */
const MOST_LISTENS = 100;

const tooEarly = (id: Id): ProtocolError =>
  new ProtocolError('rate_limited', 'Too many messages wait for the end of the handshake', { id });
