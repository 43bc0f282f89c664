/** Probes of the streams of a session of Streamable HTTP: the stream of GET, and the replay of events. */
import { canonical, isObject, parseJson } from '../json.js';
import { expect, fail, PASS, skip, type Verdict } from '../requirement.js';
import type { Reply } from '../wire/reply.js';
import { isNotification, isResponse, type Probe } from './observed.js';
import type { Peer } from './peer.js';
import { plainMethod } from './probes-base.js';
import type { McpSurface } from './surface.js';

/** Time of the stream of GET: bounded, because a server keeps it open. */
const STREAM_TIME = 15_000;
/** Time for a replay, in milliseconds. */
const REPLAY_TIME = 1_000;
const TOKEN = 'parley-stream';

interface Traffic {
  /** The reply with everything that arrived on the stream of GET. */
  readonly get: Reply;
  /** The replies to the requests that were sent meanwhile. */
  readonly posts: readonly Reply[];
}

const streamHeaders = (peer: Peer, more: Record<string, string> = {}): Record<string, string | undefined> => ({
  ...peer.headersFor!(''),
  Accept: 'text/event-stream',
  'Content-Type': undefined,
  ...more,
});

/** Calls a tool while the stream of GET is open, in a session of its own; undefined if there is no such stream. */
const traffic = (surface: McpSurface): Promise<Traffic | undefined> =>
  surface.once('stream of GET', async () => {
    const peer = await surface.options.fresh();
    let stop = (): void => {};
    let started: (status: number) => void = () => {};
    const status = new Promise<number>((resolve) => {
      started = resolve;
    });
    const running = peer.http!.send({
      method: 'GET',
      headers: streamHeaders(peer),
      limit: STREAM_TIME,
      enough: () => false,
      onHead: (given) => started(given),
      opened: (end) => {
        stop = end;
      },
    });
    const head = await Promise.race([status, running]);
    const posts: Reply[] = [];
    try {
      const [tool] = head === 200 ? await surface.freeTools() : [];
      if (tool !== undefined) {
        const params = { name: tool['name'], arguments: {} };
        posts.push(await peer.call('tools/call', params, { meta: { progressToken: TOKEN } }));
      }
      if (head === 200) posts.push(await peer.call(plainMethod(surface), {}));
    } finally {
      stop();
    }
    const get = await running;
    await peer.close();
    return head === 200 && get.stream ? { get, posts } : undefined;
  });

const onTraffic =
  (judge: (traffic: Traffic) => Verdict): Probe =>
  async (surface) => {
    const seen = await traffic(surface);
    return seen === undefined ? skip('GET opens no event stream') : judge(seen);
  };

interface Resumed {
  readonly first: Reply;
  readonly resumed: Reply;
  /** Whether the response came on the resumed stream. */
  readonly found: boolean;
}

/**
 * Resumes the stream of a request after its first event. `leave` breaks the connection at that event. Undefined if the
 * stream has no event with an id before its response.
 */
async function resume(surface: McpSurface, leave: boolean): Promise<Resumed | undefined> {
  const peer = await surface.options.fresh();
  const id = leave ? 'parley-disconnect' : 'parley-complete';
  const isOwn = (each: unknown): boolean => isObject(each) && isResponse(each) && each['id'] === id;
  let stop = (): void => {};
  let last: string | undefined;
  try {
    // The progress of a tool comes before the response.
    const [tool] = await surface.freeTools();
    const method = tool === undefined ? plainMethod(surface) : 'tools/call';
    const call = tool === undefined ? {} : { name: tool['name'], arguments: {} };
    const first = await peer.http!.send({
      method: 'POST',
      headers: peer.headersFor!(method),
      json: { jsonrpc: '2.0', id, method, params: { ...call, _meta: { progressToken: TOKEN } } },
      opened: (end) => {
        stop = end;
      },
      onEvent: (event) => {
        if (event.id === undefined) return;
        last ??= event.id;
        if (leave) stop();
      },
    });
    const event = first.events.find((each) => each.id === last);
    if (event === undefined || peer.session === undefined || isOwn(parseJson(event.data))) return undefined;
    const resumed = await peer.http!.send({
      method: 'GET',
      headers: streamHeaders(peer, { 'Last-Event-ID': last! }),
      enough: (messages) => messages.some(isOwn),
    });
    return { first, resumed, found: resumed.messages.some(isOwn) };
  } finally {
    await peer.close();
  }
}

export const STREAM_PROBES: Readonly<Record<string, Probe>> = {
  noResponsesOnGet: onTraffic(({ get }) =>
    expect(
      !get.messages.some((each) => isObject(each) && isResponse(each)),
      'a response came on the stream of GET',
      get,
    ),
  ),
  unrelatedOnGet: onTraffic(({ get }) => {
    const related = get.messages.filter(isObject).some((each) => isNotification(each, 'notifications/progress'));
    return expect(!related, 'progress of a running request came on the stream of GET', get);
  }),
  oneStream: onTraffic(({ get, posts }) => {
    const sent = new Set(get.messages.map(canonical));
    const twice = posts.find(({ messages }) => messages.some((each) => sent.has(canonical(each))));
    return expect(twice === undefined, 'a message came on two streams', twice);
  }),
  disconnect: async (surface) => {
    const left = await resume(surface, true);
    if (left === undefined) return skip('no stream can be resumed before its response');
    if (left.found) return PASS;
    // A server that replays nothing may go on with the request all the same.
    const kept = await resume(surface, false);
    if (kept?.found !== true) return skip('the server replays no events');
    return fail('the response was lost with the connection', left.first, left.resumed);
  },
  replay: async (surface) => {
    const peer = await surface.options.fresh();
    const first = await peer.call(plainMethod(surface), {});
    const second = await peer.call(plainMethod(surface), {});
    const last = first.events[0]?.id;
    if (last === undefined || peer.session === undefined) {
      await peer.close();
      return skip('the server gives no event ids');
    }
    const replayed = await peer.http!.send({
      method: 'GET',
      headers: streamHeaders(peer, { 'Last-Event-ID': last }),
      limit: REPLAY_TIME,
      enough: (messages) => messages.length > 0,
    });
    await peer.close();
    if (!replayed.stream) return skip('the server replays no events');
    const foreign = replayed.messages
      .filter(isObject)
      .some((each) => isResponse(each) && each['id'] === second.response?.['id']);
    return foreign ? fail('the replay contains a message of another stream', replayed) : PASS;
  },
};
