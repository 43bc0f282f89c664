import type { Agent, AgentFacts, AgentHealth, Events, Exchange, Passed } from '../../core/a2a/agent.js';
import type { Caller } from '../../core/caller.js';
import type { Credential } from '../../identity/upstream-credentials.js';
import type {
  CancelTaskRequest,
  GetTaskRequest,
  Operation,
  RequestOf,
  ResultOf,
  SendMessageRequest,
  SendMessageResponse,
  Streaming,
  SubscribeToTaskRequest,
  Task,
  TaskPushNotificationConfig,
} from '../../protocol/a2a/model.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { AgentContext } from './agent-context.js';
import { credentialOf } from './agent-credential.js';
import { unavailable } from './agent-errors.js';
import { type CardCache, type KnownCard, UP } from './card-cache.js';
import type { SecurityMatch } from './card-security.js';
import { type Candidate, type Choice, candidates, guesses } from './interface-choice.js';
import { isConnectionLost, isVersionMismatch, mayTryNextInterface, refusedStatus } from './retry-rules.js';
import type { Wire } from './wire.js';

/**
 * Milliseconds after which no other interface is tried, so that a caller learns within 15 s that an agent cannot be
 * reached.
 */
const PATIENCE = 8_000;

export interface RemoteAgentOptions {
  readonly name: string;
  readonly context: AgentContext;
  readonly cards: CardCache;
  readonly choice: Choice;
  /** Compares the card with the configured credentials. */
  readonly security?: SecurityMatch | undefined;
  readonly wire: (candidate: Candidate) => Wire;
  /** Closes the connections to this agent. */
  readonly close: () => Promise<void>;
}

/** A remote agent. Calls use one of its working interfaces. */
export class RemoteAgent implements Agent {
  readonly name: string;
  private readonly wires = new Map<string, Wire>();
  /** The usable interfaces of the card whose text is `of`. */
  private offered: { readonly of: string; readonly all: readonly Candidate[] } | undefined;
  /** The interface that worked last. It is tried first (C-4). */
  private preferred: string | undefined;
  /** Interfaces that have answered in the version under which the gateway called them. */
  private readonly proven = new Set<string>();

  constructor(private readonly options: RemoteAgentOptions) {
    this.name = options.name;
    options.cards.onChanged(() => {
      this.offered = undefined;
    });
  }

  async facts(): Promise<AgentFacts> {
    return (await this.options.cards.get()).facts;
  }

  known(): AgentFacts | undefined {
    return this.options.cards.current?.facts;
  }

  onChanged(listener: () => void): () => void {
    return this.options.cards.onChanged(listener);
  }

  health(): AgentHealth {
    return this.options.cards.health;
  }

  send(caller: Caller, request: Passed<SendMessageRequest>, exchange: Exchange): Promise<Passed<SendMessageResponse>> {
    return this.call(caller, 'SendMessage', request, exchange);
  }

  stream(caller: Caller, request: Passed<SendMessageRequest>, exchange: Exchange): Promise<Events> {
    return this.open(caller, 'SendStreamingMessage', request, exchange);
  }

  getTask(caller: Caller, request: GetTaskRequest, exchange: Exchange): Promise<Passed<Task>> {
    return this.call(caller, 'GetTask', { value: request }, exchange);
  }

  cancelTask(caller: Caller, request: CancelTaskRequest, exchange: Exchange): Promise<Passed<Task>> {
    return this.call(caller, 'CancelTask', { value: request }, exchange);
  }

  subscribe(caller: Caller, request: SubscribeToTaskRequest, exchange: Exchange): Promise<Events> {
    return this.open(caller, 'SubscribeToTask', { value: request }, exchange);
  }

  async setCallback(caller: Caller, config: TaskPushNotificationConfig, exchange: Exchange): Promise<void> {
    if (!(await this.facts()).can.push) throw this.cannot('push_not_supported', 'send push notifications');
    await this.call(caller, 'CreateTaskPushNotificationConfig', { value: config }, exchange);
  }

  async close(): Promise<void> {
    this.options.cards.close();
    for (const wire of this.wires.values()) wire.close?.();
    this.wires.clear();
    await this.options.close();
  }

  private async call<O extends Operation>(
    caller: Caller,
    operation: O,
    request: Passed<RequestOf<O>>,
    exchange: Exchange,
  ): Promise<Passed<ResultOf<O>>> {
    const { cards } = this.options;
    const known = cards.fresh ?? (await cards.get());
    if (operation === 'SendMessage') this.checkExtensions(known, exchange);
    return this.authorized(caller, known, (credential) =>
      this.through(known, READING.has(operation), (wire) => wire.call(operation, request, exchange, credential)),
    );
  }

  private async open(
    caller: Caller,
    operation: Streaming,
    request: Passed<RequestOf<Streaming>>,
    exchange: Exchange,
  ): Promise<Events> {
    const { cards } = this.options;
    const known = cards.fresh ?? (await cards.get());
    if (!known.facts.can.stream) throw this.cannot('unsupported_operation', 'stream');
    if (operation === 'SendStreamingMessage') this.checkExtensions(known, exchange);
    return this.authorized(caller, known, (credential) =>
      this.through(known, READING.has(operation), (wire) => wire.stream(operation, request, exchange, credential)),
    );
  }

  /**
   * Sends a request with the credential of the caller. An agent that refuses the credential has executed nothing. The
   * request is then sent once more if the caller has another credential.
   */
  private async authorized<T>(
    caller: Caller,
    { facts }: KnownCard,
    send: (credential: Credential) => Promise<T>,
  ): Promise<T> {
    const { context, security } = this.options;
    const given = credentialOf(context, caller);
    const credential = given instanceof Promise ? await given : given;
    try {
      return await send(credential);
    } catch (error) {
      const status = refusedStatus(error);
      if (status === undefined) throw error;
      const renewed = await credential.refused?.({ status, challenge: undefined });
      if (!renewed) throw security?.explained(facts.card, status) ?? error;
    }
    return send(await credentialOf(context, caller));
  }

  private cannot(reason: 'unsupported_operation' | 'push_not_supported', what: string): ProtocolError {
    return new ProtocolError(reason, `Agent "${this.name}" does not ${what}`, { outcome: 'not_executed' });
  }

  /** Checks that the client declares the extensions which the agent requires. The gateway does not add them (C-15). */
  private checkExtensions({ required }: KnownCard, { extensions }: Exchange): void {
    for (const uri of required) {
      if (extensions.includes(uri)) continue;
      throw new ProtocolError('extension_required', `Agent "${this.name}" requires the extension ${uri}`, {
        outcome: 'not_executed',
        data: { extension: uri },
      });
    }
  }

  /**
   * Tries the interface that worked last, then the next one if the call was certainly not executed. After the last one,
   * fetches the card again, because it may have changed (C-4, C-5). A reading call is repeated once after a broken
   * connection.
   */
  private async through<T>(begun: KnownCard, reading: boolean, use: (wire: Wire) => Promise<T>): Promise<T> {
    const began = Date.now();
    let known = begun;
    const tried = new Set<string>();
    let failure: unknown;
    let guessing = false;
    let again = reading;
    for (let renewed = false; ; ) {
      const candidate = this.next(known, tried, guessing);
      if (!candidate) {
        if (renewed || Date.now() - began > PATIENCE) break;
        renewed = true;
        const newer = await this.options.cards.renew();
        if (!newer || newer.fetched.text === known.fetched.text) break;
        known = newer;
        continue;
      }
      tried.add(candidate.key);
      try {
        const result = await use(this.wire(candidate));
        this.worked(candidate);
        return result;
      } catch (error) {
        if (again && isConnectionLost(error)) {
          again = false;
          tried.delete(candidate.key);
          continue;
        }
        const wrongVersion = isVersionMismatch(error, this.proven.has(candidate.key));
        if (!wrongVersion && !mayTryNextInterface(error)) {
          if (error instanceof ProtocolError && NO_ANSWER.has(error.reason)) this.failed(error);
          else this.worked(candidate);
          throw error;
        }
        guessing ||= wrongVersion;
        failure ??= error;
        if (Date.now() - began > PATIENCE) break;
      }
    }
    const error = failure ?? unavailable(this.options.context, 'its card offers no interface that can be used');
    this.failed(error);
    throw error;
  }

  private next(known: KnownCard, tried: ReadonlySet<string>, guessing: boolean): Candidate | undefined {
    const { all } = this.offered?.of === known.fetched.text ? this.offered : this.read(known);
    if (this.preferred !== undefined && tried.size === 0) {
      const known = all.find(({ key }) => key === this.preferred) ?? this.guessed(all);
      if (known) return known;
    }
    const possible = guessing ? [...all, ...guesses(all, this.options.choice)] : all;
    return possible.find(({ key }) => !tried.has(key));
  }

  /** Reads the interfaces of a new card. Closes open interfaces that are not in it, and forgets what others proved. */
  private read({ fetched: { text, card } }: KnownCard): { readonly all: readonly Candidate[] } {
    const all = candidates(card, this.options.choice);
    this.offered = { of: text, all };
    for (const [key, wire] of this.wires) {
      if (all.some((each) => each.key === key)) continue;
      this.wires.delete(key);
      wire.close?.();
    }
    const possible = new Set([...all, ...guesses(all, this.options.choice)].map(({ key }) => key));
    for (const key of this.proven) if (!possible.has(key)) this.proven.delete(key);
    return this.offered;
  }

  /** The interface that worked last, if the gateway guessed its version and the card does not offer it. */
  private guessed(all: readonly Candidate[]): Candidate | undefined {
    return guesses(all, this.options.choice).find(({ key }) => key === this.preferred);
  }

  private wire(candidate: Candidate): Wire {
    let wire = this.wires.get(candidate.key);
    if (!wire) {
      wire = this.options.wire(candidate);
      this.wires.set(candidate.key, wire);
    }
    return wire;
  }

  private worked({ key }: Candidate): void {
    this.preferred = key;
    this.proven.add(key);
    this.options.cards.health = UP;
  }

  private failed(error: unknown): void {
    if (error instanceof ProtocolError && error.reason === 'upstream_unavailable')
      this.options.cards.health = { status: 'down', detail: error.message };
  }
}

const READING: ReadonlySet<Operation> = new Set<Operation>(['GetTask', 'SubscribeToTask']);

/** Reasons of the gateway's own errors: the agent gave no valid answer. */
const NO_ANSWER: ReadonlySet<string> = new Set([
  'upstream_unavailable',
  'upstream_timeout',
  'invalid_agent_response',
  'cancelled',
]);
