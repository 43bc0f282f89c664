/** The parts of a request to an agent outside its body: headers, and the HTTP+JSON route of each operation. */
import { ProtocolError } from '../errors.js';
import type { JsonObject } from '../jsonrpc/raw.js';
import type { DialectId, Version } from './dialect.js';
import type { Operation, RequestOf } from './model.js';

export interface RestFormat {
  /** The path between the interface's URL and the path of an operation. */
  readonly root: string;
  /** Whether the path names the tenant. */
  readonly tenants: boolean;
  readonly card: string;
  /** The dialects such an agent may write, the most likely first. */
  readonly dialects: readonly DialectId[];
}

export interface RequestFormat {
  /** The value of `A2A-Version`; undefined if the version has no such header. */
  readonly named: string | undefined;
  readonly extensions: string;
  /** Whether the dialect has the form of the 1.0 model, so that unchanged values can be passed on as text. */
  readonly plain: boolean;
  /** The dialect of JSON-RPC bodies. */
  readonly dialect: DialectId;
  readonly rest: RestFormat | undefined;
  /** Whether the extended card is a page at a URL of its own instead of a method. */
  readonly cardPage: boolean;
  /**
   * Whether agents return the history of a task only on request. The gateway then requests the whole history and
   * shortens it for its client.
   */
  readonly asksHistory: boolean;
}

const LEGACY_REST: RestFormat = { root: '/v1', tenants: false, card: '/card', dialects: ['0.3-proto', '0.3'] };

const FORMATS: Record<Version, RequestFormat> = {
  '1.0': {
    named: '1.0',
    extensions: 'A2A-Extensions',
    plain: true,
    dialect: '1.0',
    rest: { root: '', tenants: true, card: '/extendedAgentCard', dialects: ['1.0'] },
    cardPage: false,
    asksHistory: false,
  },
  '0.3': {
    named: '0.3',
    extensions: 'X-A2A-Extensions',
    plain: false,
    dialect: '0.3',
    rest: LEGACY_REST,
    cardPage: false,
    asksHistory: false,
  },
  '0.2': {
    named: undefined,
    extensions: 'X-A2A-Extensions',
    plain: false,
    dialect: '0.2',
    rest: LEGACY_REST,
    cardPage: true,
    asksHistory: false,
  },
  '0.1': {
    named: undefined,
    extensions: 'X-A2A-Extensions',
    plain: false,
    dialect: '0.1',
    rest: undefined,
    cardPage: false,
    asksHistory: true,
  },
};

const WHOLE_HISTORY = 1_000;

/** Adds the request for the whole history, for agents that return it only on request. */
export function withWholeHistory<O extends Operation>(
  { asksHistory }: RequestFormat,
  operation: O,
  request: RequestOf<O>,
): RequestOf<O> {
  if (!asksHistory) return request;
  if (operation === 'GetTask') return { historyLength: WHOLE_HISTORY, ...request };
  if (operation !== 'SendMessage' && operation !== 'SendStreamingMessage') return request;
  const { configuration } = request as RequestOf<'SendMessage'>;
  return { ...request, configuration: { historyLength: WHOLE_HISTORY, ...configuration } };
}

export const requestFormatOf = (version: Version): RequestFormat => FORMATS[version];

/** The newest version, used to request cards (C-1). */
export const NEWEST_REQUEST_FORMAT: RequestFormat = FORMATS['1.0'];

export interface RestRoute {
  readonly verb: 'GET' | 'POST' | 'DELETE';
  /** The path below the interface's URL, with the query. */
  readonly path: string;
  /** `request`: the request as the dialect writes it. `empty`: an empty object. `none`: no body. */
  readonly body: 'none' | 'request' | 'empty';
}

const query = (request: JsonObject, names: readonly string[]): string => {
  const pairs = new URLSearchParams();
  for (const name of names) {
    const value = request[name];
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
      pairs.set(name, String(value));
  }
  const text = pairs.toString();
  return text === '' ? '' : `?${text}`;
};

/**
 * A value as one segment of a path (S4). Undefined for dot segments, which would change the path, and for half of a
 * surrogate pair, which has no encoding.
 */
function segmentOf(value: unknown): string | undefined {
  if (typeof value !== 'string' || value === '' || value === '.' || value === '..') return undefined;
  return /[\ud800-\udfff]/u.test(value) ? undefined : encodeURIComponent(value);
}

function segment(id: unknown): string {
  const text = segmentOf(id);
  if (text !== undefined) return text;
  throw new ProtocolError('task_not_found', 'Task not found', { outcome: 'not_executed' });
}

/** The tenant comes from the agent's card, so an unusable tenant is an error of the agent. */
function tenantSegment(tenant: string): string {
  const text = segmentOf(tenant);
  if (text !== undefined) return text;
  throw new ProtocolError('upstream_invalid', "The agent's card names a tenant that a path cannot contain", {
    outcome: 'not_executed',
  });
}

const LIST_QUERY = [
  'contextId',
  'status',
  'pageSize',
  'pageToken',
  'historyLength',
  'statusTimestampAfter',
  'includeArtifacts',
];

/** The HTTP+JSON route of an operation; `request` is in the terms of the model. */
export function restRoute(format: RestFormat, operation: Operation, request: JsonObject): RestRoute {
  const { tenant } = request;
  const root =
    format.tenants && typeof tenant === 'string' && tenant !== '' ? `/${tenantSegment(tenant)}` : format.root;
  const configs = (): string => `${root}/tasks/${segment(request['taskId'])}/pushNotificationConfigs`;
  switch (operation) {
    case 'SendMessage':
      return { verb: 'POST', path: `${root}/message:send`, body: 'request' };
    case 'SendStreamingMessage':
      return { verb: 'POST', path: `${root}/message:stream`, body: 'request' };
    case 'GetTask':
      return {
        verb: 'GET',
        path: `${root}/tasks/${segment(request['id'])}${query(request, ['historyLength'])}`,
        body: 'none',
      };
    case 'ListTasks':
      return { verb: 'GET', path: `${root}/tasks${query(request, LIST_QUERY)}`, body: 'none' };
    case 'CancelTask':
      return {
        verb: 'POST',
        path: `${root}/tasks/${segment(request['id'])}:cancel`,
        body: format.tenants ? 'request' : 'empty',
      };
    case 'SubscribeToTask':
      return { verb: 'POST', path: `${root}/tasks/${segment(request['id'])}:subscribe`, body: 'empty' };
    case 'CreateTaskPushNotificationConfig':
      return { verb: 'POST', path: configs(), body: 'request' };
    case 'GetTaskPushNotificationConfig':
      return { verb: 'GET', path: `${configs()}/${segment(request['id'])}`, body: 'none' };
    case 'ListTaskPushNotificationConfigs':
      return { verb: 'GET', path: `${configs()}${query(request, ['pageSize', 'pageToken'])}`, body: 'none' };
    case 'DeleteTaskPushNotificationConfig':
      return { verb: 'DELETE', path: `${configs()}/${segment(request['id'])}`, body: 'none' };
    case 'GetExtendedAgentCard':
      return { verb: 'GET', path: `${root}${format.card}`, body: 'none' };
  }
}
