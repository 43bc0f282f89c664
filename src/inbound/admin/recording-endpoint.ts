import { type AuditTrail, actorOf } from '../../core/audit-trail.js';
import type { CallContents, CallRecordings } from '../../core/call-recording.js';
import type { TailLine } from '../../core/live-tail.js';
import { ofWholeGateway } from '../../core/whole-admin.js';
import { maskValues } from '../../identity/mask-json-values.js';
import { ProtocolError } from '../../protocol/errors.js';
import { writeEvent } from '../../protocol/sse/writer.js';
import { PROBLEM } from '../api/operation.js';
import { EventResponse, STREAM_AGE } from '../http/event-stream-response.js';
import type { ErrorFormat, RequestContext, Route, RouteApi } from '../http/route.js';
import { filterOf, TAIL_FILTERS } from './tail-endpoint.js';

const PATH = '/api/v1/recording';
const CONTENTS: readonly string[] = ['arguments', 'results'];
/** Limit on the bytes that wait for a slow recorder. Beyond the limit, calls are dropped and counted. */
const MOST_WAITING = 1024 * 1024;
const pattern = (what: string) => ({
  description: `Only calls of this ${what}; * matches any characters.`,
  schema: { type: 'string' },
});
const contents = (what: string) => ({
  description: `\`true\`: with the ${what} of calls, in which secrets are masked.`,
  schema: { type: 'string', enum: ['true', 'false'] },
});
const API: RouteApi = {
  tag: 'Calls',
  query: {
    server: pattern('server or agent'),
    tool: pattern('tool'),
    caller: pattern('caller'),
    outcome: { description: 'Only calls with this outcome.', schema: { type: 'string' } },
    arguments: contents('arguments'),
    results: contents('results'),
  },
  responses: {
    200: { description: 'An event stream: `recording`, then a `call` for each call' },
    400: { description: 'A parameter is not valid', schema: PROBLEM },
    429: { description: 'Too many recordings are running', schema: PROBLEM },
  },
};
/** Limit on the bytes of recorded arguments, and of a recorded result. Larger ones are left out. */
export const MOST_RECORDED = 256 * 1024;

/**
 * Serves finished calls as they end, with masked arguments and results if the recorder asks for them. Only an
 * administrator of the whole gateway may record, and the audit trail names who records.
 */
export class RecordingEndpoint {
  private readonly streams = new Set<EventResponse>();

  constructor(
    private readonly recordings: CallRecordings,
    private readonly audit: Pick<AuditTrail, 'change'>,
    private readonly replica: string,
  ) {}

  routes(errors: ErrorFormat): Route[] {
    const description = 'Finished calls of this replica for a recording, as an event stream';
    const handle = (context: RequestContext): Promise<void> => this.record(context);
    return [{ method: 'GET', path: PATH, access: 'admin', errors, description, api: API, handle }];
  }

  /** Ends all streams, because the gateway stops. */
  endStreams(): void {
    for (const stream of this.streams) stream.end();
  }

  private async record({ req, res, headers, query, principal }: RequestContext): Promise<void> {
    ofWholeGateway(principal);
    const { arguments: withArguments, results, ...filter } = filterOf(query, [...TAIL_FILTERS, ...CONTENTS]);
    const wants = { arguments: isTrue('arguments', withArguments), results: isTrue('results', results) };
    const details = { ...filter, ...wants };
    let stream: EventResponse | undefined;
    const by = actorOf(principal, req.clientAddress);
    const stop = await this.audit.change({ ...by, action: 'recording.start', details }, () =>
      this.recordings.start(filter, {
        take: (line, contents, missed) => {
          if (!stream || res.unread > MOST_WAITING) return false;
          if (missed > 0) stream.write(event('dropped', { calls: missed }));
          stream.message(event('call', entryOf(line, contents, wants)));
          return true;
        },
      }),
    );
    if (!stop)
      throw new ProtocolError('rate_limited', 'Too many recordings are running; stop one first', {
        headers: { 'Retry-After': '10' },
      });
    req.listens = true;
    stream = new EventResponse(res, headers, { maxAge: STREAM_AGE });
    const opened = stream;
    this.streams.add(opened);
    opened.write(event('recording', { replica: this.replica, ...details }));
    res.onClose(() => {
      stop();
      this.streams.delete(opened);
    });
  }
}

const event = (name: string, data: object): Buffer[] =>
  writeEvent([Buffer.from(JSON.stringify(data))], { event: name });

function isTrue(name: string, given: string | undefined): boolean {
  if (given !== undefined && given !== 'true' && given !== 'false')
    throw new ProtocolError('invalid_params', `The parameter "${name}" is true or false`);
  return given === 'true';
}

/** The line of a call, with the masked contents that the recorder wants. */
function entryOf(
  line: TailLine,
  contents: CallContents,
  wants: { readonly arguments: boolean; readonly results: boolean },
): object {
  const entry: Record<string, unknown> = { time: new Date().toISOString(), ...line };
  const omitted: string[] = [];
  const add = (name: 'arguments' | 'result', text: Buffer | string | undefined): void => {
    if (text === undefined) return;
    const parsed = Buffer.byteLength(text) > MOST_RECORDED ? undefined : parsedOf(text);
    if (parsed === undefined) {
      omitted.push(name);
      return;
    }
    const { value, count } = maskValues(parsed);
    entry[name] = value;
    if (count > 0) entry['masked'] = { ...(entry['masked'] as object | undefined), [name]: count };
  };
  // A tool may be called without arguments. Such a call is recorded with `{}`, because a replay sends only calls with
  // recorded arguments.
  if (wants.arguments) add('arguments', contents.arguments() ?? (line['tool'] === undefined ? undefined : '{}'));
  if (wants.results && Number(line['bytes']) > MOST_RECORDED) omitted.push('result');
  else if (wants.results) add('result', contents.result());
  return omitted.length === 0 ? entry : { ...entry, omitted };
}

function parsedOf(text: Buffer | string): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return undefined;
  }
}
