import type { Caller, Cancellation, Principal } from '../../core/caller.js';
import type { CallState } from '../../core/era-bridge/call-state.js';
import type { RequestStates } from '../../core/era-bridge/sealed-request-states.js';
import { type Call, type Gateway, type Outcome, plainCall, type Subscription, type View } from '../../core/gateway.js';
import { NotificationLimiter } from '../../core/notification-limiter.js';
import { ProtocolError } from '../../protocol/errors.js';
import { type Id, type RpcRequest, writeNotification, writeResult } from '../../protocol/jsonrpc/message.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import type { Envelope } from '../../protocol/mcp/client-version.js';
import { isModernMethod, isRemovedMethod } from '../../protocol/mcp/methods.js';
import {
  atLeast,
  type Implementation,
  isLogLevel,
  isObject,
  LIST_KINDS,
  META,
  type Notification,
  type SubscriptionFilter,
} from '../../protocol/mcp/model.js';
import { resultOf } from '../../protocol/mcp/translate/result.js';
import { Encoder, isKnownError, NO_HEADERS, type Refused, type ReplyChannel } from './reply-channel.js';

export interface ModernRequest {
  readonly principal: Principal;
  readonly view: View;
  readonly message: RpcRequest;
  readonly envelope: Envelope;
  readonly channel: ReplyChannel;
  readonly cancellation: Cancellation;
  readonly header: Call['header'];
  /** The maximum age of a subscription in milliseconds. It then ends with a result, and the client opens another. */
  readonly maxAge?: number;
}

/** An open subscription, which its transport can end with a result. */
export interface OpenListen {
  /** Sends the result that ends the subscription (SUB-06). */
  end(): void;
}

/** Serves requests that carry their own metadata. No state is kept between two requests. */
export class ModernRequestHandler {
  private readonly open = new Set<OpenListen>();
  private calls = 0;

  constructor(
    private readonly gateway: Gateway,
    private readonly info: Implementation,
    private readonly states: RequestStates,
    private readonly refused?: Refused,
  ) {}

  async handle(request: ModernRequest): Promise<void> {
    const { message, envelope, channel } = request;
    const encoder = new Encoder(envelope.revision, this.info);
    const { id, method, params } = message;
    if (isRemovedMethod(method) || (!isModernMethod(method) && request.view.only === undefined)) {
      this.refuse(encoder, request, new ProtocolError('method_not_found', `Method not found: ${method}`));
      return;
    }
    const caller: Caller = {
      principal: request.principal,
      revision: envelope.revision,
      capabilities: envelope.capabilities,
      clientInfo: envelope.clientInfo,
      session: undefined,
    };
    if (method === 'subscriptions/listen') {
      await this.listen(request, caller, encoder);
      return;
    }
    let state: CallState | undefined;
    try {
      state = this.stateIn(caller, message);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.refuse(encoder, request, error);
      return;
    }
    const { progressToken, logLevel } = envelope;
    const say = (notification: Notification): void => channel.send(encoder.notification(notification, progressToken));
    // No limiter is needed if the client wants neither progress nor log messages.
    const quiet = progressToken === undefined && logLevel === undefined;
    const limiter = quiet ? undefined : new NotificationLimiter(request.cancellation, say);
    this.calls++;
    try {
      const outcome = await this.gateway.call(caller, {
        requestId: channel.requestId,
        address: channel.address,
        id,
        method,
        params,
        state,
        view: request.view,
        wantsProgress: progressToken !== undefined,
        logLevel,
        cancellation: limiter?.cancellation ?? request.cancellation,
        header: request.header,
        // Present from the start, so that V8 uses one hidden class for calls with a trace and calls without a trace.
        trace: undefined,
        notify: (notification) => {
          if (!wanted(notification, envelope)) return;
          if (limiter) limiter.notify(notification);
          else say(notification);
        },
      });
      this.answer(caller, encoder, channel, message, limiter ? limiter.settle(outcome) : outcome);
    } finally {
      this.calls--;
    }
  }

  private stateIn(caller: Caller, { method, params }: RpcRequest): CallState | undefined {
    const sealed = params.get('requestState');
    if (sealed === undefined) return undefined;
    if (typeof sealed !== 'string') throw new ProtocolError('invalid_state', '"requestState" must be a string');
    return this.states.open(caller, method, params, sealed);
  }

  private answer(
    caller: Caller,
    encoder: Encoder,
    channel: ReplyChannel,
    { id, method, params }: RpcRequest,
    outcome: Outcome,
  ): void {
    switch (outcome.kind) {
      case 'complete':
      case 'task':
        encoder.result(channel, id, method, outcome.result);
        break;
      case 'input_required':
        encoder.result(
          channel,
          id,
          'input_required',
          resultOf({
            resultType: 'input_required',
            ...(outcome.inputRequests && { inputRequests: outcome.inputRequests }),
            ...(outcome.state && { requestState: this.states.close(caller, method, params, outcome.state) }),
          }),
        );
        break;
      case 'error':
        encoder.failure(channel, id, method, outcome.error, params);
    }
  }

  /** Answers with an error that no call has counted. */
  private refuse(encoder: Encoder, { message, channel }: ModernRequest, error: ProtocolError): void {
    this.refused?.(error);
    encoder.failure(channel, message.id, message.method, error, message.params);
  }

  private async listen(request: ModernRequest, caller: Caller, encoder: Encoder): Promise<void> {
    const { message, view, channel, cancellation, header, maxAge } = request;
    const { id } = message;
    const filter = readFilter(message.params.get('notifications'));
    if (!filter) {
      const problem = new ProtocolError('invalid_params', '"notifications" must say what to listen to');
      this.refuse(encoder, request, problem);
      return;
    }
    const tagged = ({ method, params }: Notification): Buffer => writeNotification(method, tag(params, id));
    let acknowledged = false;
    const early: Notification[] = [];
    let subscription: Subscription;
    const call = plainCall(message.method, message.params, view, {
      requestId: channel.requestId,
      address: channel.address,
      id,
      cancellation,
      header,
    });
    try {
      subscription = await this.gateway.listen(caller, call, filter, (notification) => {
        if (acknowledged) channel.send(tagged(notification));
        else early.push(notification);
      });
    } catch (error) {
      if (!isKnownError(error)) throw error;
      encoder.failure(channel, id, message.method, error);
      return;
    }
    if (cancellation.cancelled) {
      subscription.close();
      return;
    }
    // The first message of a subscription is the acknowledgement (SUB-02).
    channel.send(
      tagged({ method: 'notifications/subscriptions/acknowledged', params: { notifications: subscription.honoured } }),
    );
    acknowledged = true;
    for (const notification of early) channel.send(tagged(notification));
    const listen: OpenListen = {
      end: () => {
        close();
        const result = resultOf({
          resultType: 'complete',
          _meta: { [META.subscriptionId]: id, [META.serverInfo]: this.info },
        });
        channel.finish(writeResult(id, [result.bytes()]), 200, NO_HEADERS);
      },
    };
    const age = maxAge === undefined ? undefined : setTimeout(() => listen.end(), maxAge).unref();
    const close = (): void => {
      clearTimeout(age);
      this.open.delete(listen);
      subscription.close();
    };
    this.open.add(listen);
    cancellation.onCancel(close);
  }

  /** Ends every subscription with a result, at a graceful stop. */
  endListens(): void {
    for (const listen of [...this.open]) listen.end();
  }

  /** The number of open subscriptions. */
  get listens(): number {
    return this.open.size;
  }

  /** The number of open calls, without subscriptions. */
  get busy(): number {
    return this.calls;
  }
}

/**
 * Whether the current request asked for a notification. A resumed call sends the notifications that its first request
 * asked for, and the current request may ask for fewer (mcp.md 4.12).
 */
function wanted({ method, params }: Notification, { progressToken, logLevel }: Envelope): boolean {
  if (method === 'notifications/progress') return progressToken !== undefined;
  if (method !== 'notifications/message') return true;
  const { level } = params;
  return logLevel !== undefined && isLogLevel(level) && atLeast(level, logLevel);
}

function tag(params: JsonObject, id: Id): JsonObject {
  const meta = params['_meta'];
  return { ...params, _meta: { ...(isObject(meta) ? meta : {}), [META.subscriptionId]: id } };
}

function readFilter(value: unknown): SubscriptionFilter | undefined {
  if (!isObject(value)) return undefined;
  const filter: SubscriptionFilter = {};
  for (const kind of LIST_KINDS) if (value[kind] === true) filter[kind] = true;
  const taskIds = value['taskIds'];
  if (Array.isArray(taskIds)) filter.taskIds = taskIds.filter((id) => typeof id === 'string');
  const uris = value['resourceSubscriptions'];
  if (uris !== undefined) {
    if (!Array.isArray(uris) || !uris.every((uri) => typeof uri === 'string')) return undefined;
    filter.resourceSubscriptions = uris as string[];
  }
  return filter;
}
