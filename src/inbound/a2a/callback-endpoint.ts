import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { CALLBACK_PATH, CallbackRefused, type Callbacks } from '../../core/a2a/push/agent-callback-urls.js';
import type { AgentRecords, TaskKey, TaskRecord } from '../../core/a2a/tasks/task-records.js';
import { principalOf } from '../../core/caller.js';
import { type AuthenticationRequest, type Authenticator, Challenge } from '../../identity/authenticator.js';
import type { Dialect } from '../../protocol/a2a/dialect.js';
import { isTerminal, type StreamResponse } from '../../protocol/a2a/model.js';
import { ProtocolError } from '../../protocol/errors.js';
import { type StructureLimits, structureFault } from '../../protocol/jsonrpc/json-depth-limit.js';
import type { JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { Bus } from '../../state/index.js';
import type { ErrorFormat, RequestContext, Route } from '../http/route.js';
import { sendBody, sendEmpty, sendJson } from '../http/send-body.js';

export interface CallbackEndpointOptions {
  readonly callbacks: Pick<Callbacks, 'address'>;
  readonly records: Pick<AgentRecords, 'find'>;
  /** Receives the events of a callback, with the agent's own ids. */
  readonly dispatcher: { handleCallback(key: TaskKey, events: StreamResponse[]): Promise<void> };
  /** Every dialect an agent may write, the newest first. */
  readonly dialects: readonly Pick<Dialect, 'readNotification'>[];
  /** Shared by all replicas, because a repeated callback may reach another replica. */
  readonly bus: Pick<Bus, 'incr'>;
  readonly limits: StructureLimits & { readonly body: number; readonly perMinute?: number };
}

const NOT_PROVED = new Challenge('The token does not belong to this task');

/** The sealed part of a callback's URL. Sealed values need no URL encoding. */
const addressIn = (url: string): string => {
  const [path = ''] = url.split('?', 1);
  return path.slice(CALLBACK_PATH.length + 1).replace(/\/$/, '');
};

const PER_MINUTE = 600;
const MINUTE = 60_000;
/**
 * How long callbacks are remembered to detect duplicates. Senders repeat a callback without an acknowledgement for this
 * long.
 */
const REMEMBERED = 24 * 60 * MINUTE;
/**
 * The number of callbacks of one task in that time that are remembered for all of it. Further ones are remembered for
 * `BRIEFLY`, so that the marks of a task are limited: to this number, and those of ten minutes at the highest rate.
 */
const REMEMBERED_LONG = 1_000;
const BRIEFLY = 10 * MINUTE;
const LONGEST_ECHO = 1_024;

/**
 * The endpoint to which agents post updates of tasks (C-11). Agents are not callers of the gateway, so the sealed URL
 * and the token authorise a callback. A refused sender learns only the status.
 */
export class CallbackEndpoint {
  constructor(private readonly options: CallbackEndpointOptions) {}

  routes(): Route[] {
    const route = {
      path: `${CALLBACK_PATH}/{address}`,
      access: 'user',
      errors: CALLBACK_ERRORS,
      authenticator: this.authenticator,
    } as const;
    return [
      {
        ...route,
        method: 'GET',
        description: 'A2A up to 0.2: an agent verifies that its callbacks are wanted',
        handle: (context) => this.echo(context),
      },
      {
        ...route,
        method: 'POST',
        description: 'A2A: an agent posts an update of a task',
        handle: (context) => this.take(context),
      },
    ];
  }

  /** An agent authenticates with the token of its task. A GET changes nothing and needs only the sealed URL. */
  private readonly authenticator: Authenticator = {
    enabled: true,
    authenticate: (request) => {
      const { key, proves } = this.address(addressIn(request.url));
      if (request.method === 'POST' && !tokens(request).some(proves)) return NOT_PROVED;
      return principalOf({ issuer: `agent:${key.agent}`, subject: key.id });
    },
  };

  /** Agents of the first version send a token to a webhook, and verify that the gateway echoes this token. */
  private echo({ res, headers, query }: RequestContext): void {
    const echo = query.get('validationToken');
    if (echo === null || echo.length > LONGEST_ECHO)
      throw new ProtocolError('invalid_request', 'The query must contain a validationToken of at most 1024 characters');
    const plain = [...headers, 'X-Content-Type-Options', 'nosniff', 'Cache-Control', 'no-store'];
    sendBody(res, 200, plain, 'text/plain; charset=utf-8', [Buffer.from(echo)]);
  }

  private address(sealed: string): ReturnType<Callbacks['address']> {
    try {
      return this.options.callbacks.address(sealed);
    } catch (error) {
      if (!(error instanceof CallbackRefused)) throw error;
      throw new ProtocolError(error.why === 'expired' ? 'gone' : 'not_found', error.message);
    }
  }

  private async take(context: RequestContext): Promise<void> {
    const { req, res, headers } = context;
    const { key } = this.address(context.params['address']!);
    const { bus, limits, records } = this.options;
    const name = createHash('sha256')
      .update(JSON.stringify([key.agent, key.owner, key.id]))
      .digest('base64url');
    if ((await bus.incr(`callbacks:${name}`, 1, MINUTE)) > (limits.perMinute ?? PER_MINUTE))
      throw new ProtocolError('rate_limited', 'Too many updates of this task', { headers: { 'Retry-After': '60' } });
    const body = await req.read(limits.body);
    const record = await records.find(key);
    if (!record) throw new ProtocolError('not_found', 'Task not found');
    const events = fresh(record, this.read(body, record));
    if (events.length > 0) await this.tell(key, events, name, digest(context, body));
    sendEmpty(res, 204, headers);
  }

  /**
   * Passes each update on once. If the update could not be stored, its mark as received is removed, because the agent
   * will repeat the update.
   */
  private async tell(key: TaskKey, events: StreamResponse[], name: string, digest: string): Promise<void> {
    const { bus, dispatcher } = this.options;
    const mark = `callback:${name}:${digest}`;
    const remembered = await bus.incr(`callbacks-remembered:${name}`, 1, REMEMBERED);
    const time = remembered > REMEMBERED_LONG ? BRIEFLY : REMEMBERED;
    if ((await bus.incr(mark, 1, time)) > 1) return;
    try {
      await dispatcher.handleCallback(key, events);
    } catch (error) {
      await bus.incr(mark, -1, time);
      throw error;
    }
  }

  /** Agents post updates in the form of any version, also inside a JSON-RPC envelope. */
  private read(body: Buffer, record: TaskRecord): StreamResponse[] {
    const wire = parse(body, this.options.limits);
    let foreign = false;
    for (const dialect of this.options.dialects) {
      let events: StreamResponse[];
      try {
        events = dialect.readNotification(wire);
      } catch {
        continue;
      }
      if (events.length === 0) continue;
      if (events.every((event) => taskIdOf(event) === record.upstreamId)) return events;
      foreign = true;
    }
    throw new ProtocolError(
      'invalid_request',
      `The body is ${foreign ? 'an update of another task' : 'not an update of a task'}`,
    );
  }
}

/**
 * The events newer than the stored state. A finished task does not change, and a late event of an older state is
 * dropped.
 */
function fresh({ task }: TaskRecord, events: StreamResponse[]): StreamResponse[] {
  if (isTerminal(task.status.state)) return [];
  const known = Date.parse(task.status.timestamp ?? '');
  return events.filter(({ statusUpdate, task: snapshot }) => {
    const said = Date.parse((statusUpdate ?? snapshot)?.status.timestamp ?? '');
    return !(said < known);
  });
}

function taskIdOf({ task, statusUpdate, artifactUpdate, message }: StreamResponse): string | undefined {
  return task?.id ?? statusUpdate?.taskId ?? artifactUpdate?.taskId ?? message?.taskId;
}

/** Old agents send the token in its own header, newer agents as credentials. */
function tokens(request: AuthenticationRequest): string[] {
  const own = request.header('x-a2a-notification-token');
  const bearer = /^Bearer +(\S+)$/i.exec(request.header('authorization') ?? '')?.[1];
  return [...(typeof own === 'string' ? [own] : []), ...(bearer === undefined ? [] : [bearer])];
}

/**
 * Two callbacks with equal bodies may be two chunks of a text. If the sender numbers its callbacks, the number
 * distinguishes them.
 */
function digest({ req }: RequestContext, body: Buffer): string {
  const id = req.header('webhook-id');
  return createHash('sha256')
    .update(`${typeof id === 'string' ? id : ''}\n`)
    .update(body)
    .digest('base64url');
}

function parse(body: Buffer, limits: StructureLimits): JsonValue {
  if (!isUtf8(body)) throw new ProtocolError('parse_error', 'The body is not valid UTF-8');
  const fault = structureFault(body, limits);
  if (fault !== undefined) throw new ProtocolError('parse_error', `The body ${fault}`);
  try {
    return JSON.parse(body.toString('utf8')) as JsonValue;
  } catch {
    throw new ProtocolError('parse_error', 'The body is not valid JSON');
  }
}

/** Unauthenticated senders get the status and one sentence. */
export const CALLBACK_ERRORS: ErrorFormat = {
  name: 'callback',
  write: ({ res, headers }, error) => {
    if (res.begun) res.end();
    const more = Object.entries(error.detail.headers ?? {}).flat();
    sendJson(res, error.row.rest, [...headers, ...more], [Buffer.from(JSON.stringify({ error: error.message }))]);
  },
};
