import { failed, type Outcome } from '../../core/gateway.js';
import type { UpstreamCall } from '../../core/upstream.js';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import {
  type RpcMessage,
  type RpcResponse,
  readReplies,
  writeNotification,
  writeRequest,
} from '../../protocol/jsonrpc/message.js';
import { type JsonObject, RawObject } from '../../protocol/jsonrpc/raw.js';
import {
  atLeast,
  type ClientCapabilities,
  isLogLevel,
  isObject,
  META,
  type Notification,
  type SubscriptionFilter,
} from '../../protocol/mcp/model.js';
import type { Revision } from '../../protocol/mcp/revisions/index.js';
import { stampParams } from '../../protocol/mcp/translate/meta.js';
import { decodeOutcome } from '../../protocol/mcp/translate/result-kind.js';
import { nextId } from '../request-ids.js';
import type { Child } from '../stdio/child-process.js';
import type { Start } from '../stdio/supervisor-types.js';
import { Deadline } from './deadline.js';
import { gatewayCall } from './gateway-call.js';
import type { OpenWatch } from './peer.js';
import { broken, invalidReply, timedOut, unavailable } from './server-errors.js';
import { FLOODED } from './server-traffic-limits.js';
import { endingOf, problemOf } from './session/stdio-error-messages.js';
import type { UpstreamContext } from './upstream-context.js';

interface Waiting {
  readonly call: UpstreamCall;
  readonly deadline: Deadline;
  settle(outcome: Outcome): void;
}

interface Listening {
  acknowledged: boolean;
  deliver(notification: Notification): void;
  opened(honoured: SubscriptionFilter): void;
  /** The server answered the subscription, or cancelled it. */
  refused(why: string): void;
  /** The process is gone. */
  ended(why: string): void;
}

/** A modern server over stdio. Requests and subscriptions share the pipes; their ids distinguish them. */
export class ModernStdio {
  private readonly waiting = new Map<number, Waiting>();
  private readonly listening = new Map<number, Listening>();
  private readonly child: Child;
  private over: string | undefined;

  constructor(
    private readonly context: UpstreamContext,
    readonly revision: Revision,
    start: Start,
    private readonly ended: (why: string) => void = () => {},
  ) {
    this.child = start({
      message: (line) => this.message(line),
      exit: (info) => this.exit(endingOf(this.context, info)),
    });
  }

  get isOver(): boolean {
    return this.over !== undefined;
  }

  /** Resolves when the process has answered a request, which shows that it works. */
  async answers(time: number): Promise<void> {
    await this.send({}, { ...gatewayCall('server/discover'), timeouts: { call: time, callMax: time } });
  }

  send(capabilities: ClientCapabilities, call: UpstreamCall): Promise<Outcome> {
    return new Promise((resolve) => {
      const id = nextId();
      const { call: idle, callMax } = call.timeouts ?? this.context.timeouts;
      let stopListening = (): void => {};
      const settle = (outcome: Outcome): void => {
        if (!this.waiting.delete(id)) return;
        deadline.clear();
        stopListening();
        resolve(outcome);
      };
      const giveUp = (error: ProtocolError, reason: string | undefined): void => {
        this.cancel(id, reason);
        settle(failed(error));
      };
      const deadline = new Deadline(idle, callMax, () => giveUp(timedOut(this.context, idle), 'timed out'));
      this.waiting.set(id, { call, deadline, settle });
      const sent = this.write(
        writeRequest(id, call.method, this.stamp(call.params, capabilities, call, call.wantsProgress ? id : undefined)),
      );
      if (sent !== undefined) settle(failed(unavailable(this.context, sent)));
      else
        stopListening = call.cancellation.onCancel((reason) =>
          giveUp(new ProtocolError('cancelled', 'The request was cancelled'), reason),
        );
    });
  }

  listen(
    filter: SubscriptionFilter,
    deliver: (notification: Notification) => void,
    lost: (why: string) => void,
  ): Promise<OpenWatch> {
    return new Promise((resolve, reject) => {
      const id = nextId();
      const drop = (): void => {
        clearTimeout(timer);
        this.listening.delete(id);
      };
      const fail = (why: string, error = unavailable(this.context, why)): void => {
        drop();
        if (entry.acknowledged) lost(why);
        else reject(error);
      };
      const timer = setTimeout(() => fail('it did not acknowledge the subscription'), this.context.timeouts.call);
      const entry: Listening = {
        acknowledged: false,
        deliver,
        opened: (honoured) => {
          clearTimeout(timer);
          entry.acknowledged = true;
          resolve({
            honoured,
            close: () => {
              drop();
              this.cancel(id, undefined);
            },
          });
        },
        // The server is reachable, so this does not count as a connection failure.
        refused: (why) => fail(why, broken(this.context, `refused the subscription: ${why}`)),
        ended: (why) => fail(why),
      };
      this.listening.set(id, entry);
      const params = this.stamp(RawObject.from({ notifications: filter }), {}, undefined, undefined);
      const refused = this.write(writeRequest(id, 'subscriptions/listen', params));
      if (refused !== undefined) fail(refused);
    });
  }

  private stamp(
    params: RawObject,
    capabilities: ClientCapabilities,
    call: UpstreamCall | undefined,
    token: number | undefined,
  ): RawObject {
    return stampParams(params, {
      revision: this.revision,
      clientInfo: this.context.clientInfo,
      capabilities,
      logLevel: call?.logLevel,
      progressToken: token,
      trace: call?.trace,
    });
  }

  /** STD-06: over stdio a request is cancelled with a notification. */
  private cancel(requestId: number, reason: string | undefined): void {
    this.write(writeNotification('notifications/cancelled', { requestId, ...(reason && { reason }) }));
  }

  private write(message: Buffer): string | undefined {
    if (this.over !== undefined) return this.over;
    try {
      this.child.send(message);
      return undefined;
    } catch (error) {
      return problemOf(this.context, error);
    }
  }

  private message(line: Buffer): void {
    let messages: RpcMessage[];
    try {
      messages = readReplies(line);
    } catch {
      this.child.countBadLine();
      return;
    }
    for (const message of messages) {
      const wanted =
        message.kind === 'response'
          ? this.response(message)
          : message.kind === 'notification' && this.notification(message.method, message.params.value());
      if (!wanted) this.unwanted(line.length / messages.length);
    }
  }

  /** Counts a message that no call waits for. A process that sends too many is stopped and restarted after a pause. */
  private unwanted(bytes: number): void {
    const { traffic, log, name } = this.context;
    if (this.over !== undefined || traffic.allows(bytes)) return;
    traffic.flooded();
    log.warn({ server: name }, 'stopping the process of a server: it sent too many messages outside of calls');
    this.exit(FLOODED);
    this.child.giveUp(FLOODED);
  }

  /** Returns false if no request waits for the response. */
  private response(message: RpcResponse): boolean {
    const listening = this.listening.get(message.id as number);
    if (listening) {
      listening.refused(message.error?.message ?? 'it ended the request at once');
      return true;
    }
    const waiting = this.waiting.get(message.id as number);
    if (!waiting) {
      this.context.log.warn({ server: this.context.name }, 'dropped a response to an unknown request');
      return false;
    }
    if (message.error) {
      const { code, message: text, data } = message.error;
      waiting.settle(failed(new UpstreamRpcError(code, text, data)));
    } else
      waiting.settle(
        decodeOutcome(message.result!) ?? failed(invalidReply(this.context, 'sent a result of unknown type')),
      );
    return true;
  }

  /** Returns true if a call waits for the notification. */
  private notification(method: string, params: JsonObject): boolean {
    const meta = params['_meta'];
    const subscription = isObject(meta) ? meta[META.subscriptionId] : undefined;
    if (subscription !== undefined) {
      const listening = this.listening.get(subscription as number);
      if (!listening) return false;
      if (method !== 'notifications/subscriptions/acknowledged') listening.deliver({ method, params });
      else if (!listening.acknowledged) listening.opened((params['notifications'] ?? {}) as SubscriptionFilter);
      return false;
    }
    if (method === 'notifications/progress') {
      const waiting = this.waiting.get(params[META.progressToken] as number);
      if (!waiting?.call.wantsProgress) return false;
      waiting.deadline.extend();
      waiting.call.notify({ method, params });
      return true;
    }
    if (method === 'notifications/message' && this.waiting.size === 1) {
      // A log message over stdio does not name its request. The gateway passes it on only if one request is under way.
      const { call } = this.waiting.values().next().value!;
      const level = params['level'];
      if (call.logLevel === undefined || !isLogLevel(level) || !atLeast(level, call.logLevel)) return false;
      call.notify({ method, params });
      return true;
    }
    if (method === 'notifications/cancelled')
      this.listening.get(params['requestId'] as number)?.refused('it ended the request at once');
    return false;
  }

  private exit(why: string): void {
    if (this.over !== undefined) return;
    this.over = why;
    for (const waiting of [...this.waiting.values()]) waiting.settle(failed(broken(this.context, `is gone: ${why}`)));
    for (const listening of [...this.listening.values()]) listening.ended(why);
    this.ended(why);
  }
}
