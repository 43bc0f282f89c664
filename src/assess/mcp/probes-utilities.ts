/** Probes of paging, completion, progress, cancellation, caching and subscriptions. */
import { asList, asObject, eachObject, isObject, isText, type Json } from '../json.js';
import { expect, fail, PASS, skip, type Verdict } from '../requirement.js';
import type { Reply } from '../wire/reply.js';
import { isNotification, observation, type Probe, replies } from './observed.js';
import { harmless, META } from './peer.js';
import { outcome, refusedWith, served } from './probes-base.js';
import { firstList } from './probes-features.js';
import { NO_SUCH_NAME } from './probes-transport.js';
import { LIST_METHODS, type ListName, type McpSurface } from './surface.js';

const MAX_VALUES = 100;
const CACHEABLE: ReadonlySet<string> = new Set([...Object.values(LIST_METHODS), 'resources/read', 'server/discover']);
const LISTS = Object.keys(LIST_METHODS) as ListName[];

/** A reference that can be completed: an argument of a prompt, or of a template. */
async function completable(surface: McpSurface): Promise<Json | undefined> {
  for (const prompt of (await surface.list('prompts'))?.items ?? []) {
    const argument = asObject(asList(prompt['arguments'])[0])['name'];
    if (isText(argument))
      return { ref: { type: 'ref/prompt', name: prompt['name'] }, argument: { name: argument, value: '' } };
  }
  for (const template of (await surface.list('resourceTemplates'))?.items ?? []) {
    const argument = /\{[+#./;?&]?(\w+)/.exec(String(template['uriTemplate']))?.[1];
    if (argument !== undefined)
      return { ref: { type: 'ref/resource', uri: template['uriTemplate'] }, argument: { name: argument, value: '' } };
  }
  return undefined;
}

const completion = (surface: McpSurface): Promise<Reply | undefined> =>
  surface.once('completion', async () => {
    const params = await completable(surface);
    return params === undefined ? undefined : surface.peer.call('completion/complete', params);
  });

const LISTENED: Readonly<Record<string, string>> = {
  tools: 'toolsListChanged',
  prompts: 'promptsListChanged',
  resources: 'resourcesListChanged',
};
const LISTEN_ID = 'parley-listen';

/** Changes of a list that the server announces, as the filter of a subscription. */
function changesOf({ capabilities }: McpSurface): Json | undefined {
  const changing = Object.keys(LISTENED).find((name) => asObject(capabilities[name])['listChanged'] === true);
  return changing === undefined ? undefined : { [LISTENED[changing]!]: true };
}

/** The first messages of a subscription; undefined if the server announces no changes. */
const listen = (surface: McpSurface): Promise<Reply | undefined> =>
  surface.once('listen', async () => {
    const { peer } = surface;
    const notifications = changesOf(surface);
    if (notifications === undefined) return undefined;
    const enough = (messages: readonly unknown[]): boolean => messages.length > 0;
    const reply = await peer.call('subscriptions/listen', { notifications }, { id: LISTEN_ID, enough });
    if (peer.transport === 'http') return reply;
    // Other messages of the subscription arrive before the answer to the next request.
    const next = await peer.call(harmless(peer.revision));
    await peer.notify('notifications/cancelled', { requestId: LISTEN_ID, reason: 'assessed' });
    return { ...reply, messages: [...reply.messages, ...next.messages.filter((each) => each !== next.response)] };
  });

const onListen =
  (judge: (reply: Reply, first: Json, surface: McpSurface) => Verdict): Probe =>
  async (surface) => {
    const reply = await listen(surface);
    if (reply === undefined) return skip('the server announces no changes');
    const [first] = reply.messages.filter(isObject);
    if (first === undefined) return fail(`subscriptions/listen was not answered: ${outcome(reply)}`, reply);
    return judge(reply, first, surface);
  };

const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged';
/** Notifications that belong to a request, never to a subscription. */
const OF_REQUESTS: ReadonlySet<unknown> = new Set(['notifications/progress', 'notifications/message']);

export const UTILITY_PROBES: Readonly<Record<string, Probe>> = {
  badCursor: async (surface) => {
    const name = firstList(surface);
    if (name === undefined) return skip('the server has no lists');
    return refusedWith(await surface.peer.call(LIST_METHODS[name], { cursor: 'parley-invalid-cursor' }), -32602);
  },
  cursorShape: async (surface) => {
    let lists = 0;
    for (const name of LISTS) {
      const list = await surface.list(name);
      if (list === undefined) continue;
      lists++;
      const cursors = list.pages.map((page) => page.result?.['nextCursor']).filter((each) => each !== undefined);
      if (cursors.some((each) => typeof each !== 'string'))
        return fail(`${name}: nextCursor is not a text`, list.pages[0]);
      if (new Set(cursors).size < cursors.length) return fail(`${name}: a cursor repeats itself`, list.pages.at(-1));
    }
    return lists === 0 ? skip('the server has no lists') : PASS;
  },
  completionsDeclared: async (surface) => {
    const reply = await completion(surface);
    if (reply === undefined) return skip('nothing to complete');
    const declared = surface.declares('completions');
    if (reply.result === undefined && !declared) return skip('the server offers no completion');
    if (!declared) return fail('arguments are completed, but completions is not declared', reply);
    return served(reply, 'completions is declared, but completion/complete fails');
  },
  completionValues: async (surface) => {
    const reply = await completion(surface);
    if (reply?.result === undefined) return skip('nothing was completed');
    const { values } = asObject(reply.result['completion']);
    if (!Array.isArray(values) || values.some((each) => typeof each !== 'string'))
      return fail('completion.values is not a list of texts', reply);
    return expect(values.length <= MAX_VALUES, `${values.length} values`, reply);
  },
  badCompletion: async (surface) => {
    if (!surface.declares('completions')) return skip('completions is not declared');
    const params = { ref: { type: 'ref/prompt', name: NO_SUCH_NAME }, argument: { name: 'none', value: '' } };
    return refusedWith(await surface.peer.call('completion/complete', params), -32602);
  },
  unknownCancel: async (surface) => {
    const { peer } = surface;
    if (surface.modern && peer.transport === 'http') return skip('clients cancel by closing the stream');
    const reply = await peer.notify('notifications/cancelled', { requestId: 'parley-none', reason: 'assessed' });
    const answered = reply.messages.some((each) => isObject(each) && !('method' in each));
    const wrong = answered || (reply.status ?? 200) >= 400 || reply.failure !== undefined;
    return expect(!wrong, `a cancellation of an unknown request: ${outcome(reply)}`, reply);
  },
  cachePages: async (surface) => {
    for (const name of LISTS) {
      const list = await surface.list(name);
      const scopes = new Set(list?.pages.flatMap(({ result }) => (result === undefined ? [] : [result['cacheScope']])));
      if (scopes.size > 1) return fail(`${name}: the pages have different scopes`, ...list!.pages.slice(0, 2));
    }
    return PASS;
  },
  listenAcknowledged: onListen((reply, first) =>
    expect(first['method'] === ACKNOWLEDGED, `the first message is ${first['method'] ?? outcome(reply)}`, reply),
  ),
  listenId: onListen((reply) => {
    const wrong = reply.messages
      .filter(isObject)
      .find((each) => 'method' in each && asObject(asObject(each['params'])['_meta'])[META.subscription] !== LISTEN_ID);
    return expect(wrong === undefined, `${wrong?.['method']} does not carry the id of the subscription`, reply);
  }),
  listenTypes: onListen((reply, _, { capabilities }) => {
    const asked = Object.keys(LISTENED).find((name) => asObject(capabilities[name])['listChanged'] === true);
    const allowed: ReadonlySet<unknown> = new Set([
      ACKNOWLEDGED,
      ...OF_REQUESTS,
      `notifications/${asked}/list_changed`,
    ]);
    const wrong = reply.messages.filter(isObject).find((each) => 'method' in each && !allowed.has(each['method']));
    return expect(wrong === undefined, `${wrong?.['method']} was not requested`, reply);
  }),
  cancelledListen: async (surface) => {
    const notifications = changesOf(surface);
    if (notifications === undefined) return skip('the server announces no changes');
    const other = await surface.options.fresh();
    const id = 'parley-cancelled';
    const enough = (messages: readonly unknown[]): boolean => messages.length > 0;
    const opened = await other.call('subscriptions/listen', { notifications }, { id, enough });
    const cancelled = await other.notify('notifications/cancelled', { requestId: id, reason: 'assessed' });
    const next = await other.call(harmless(other.revision));
    await other.close();
    if (opened.messages.length === 0 || opened.response !== undefined) return skip('no subscription stays open');
    const further = [...cancelled.messages, ...next.messages]
      .filter(isObject)
      .find((each) => each['id'] === id || asObject(asObject(each['params'])['_meta'])[META.subscription] === id);
    return expect(further === undefined, 'a message was sent for a request that was cancelled', cancelled, next);
  },
  listenQuiet: onListen((reply) => {
    const wrong = reply.messages.filter(isObject).find((each) => OF_REQUESTS.has(each['method']));
    return expect(wrong === undefined, `${wrong?.['method']} came on the stream of a subscription`, reply);
  }),
};

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}/;

/** The key of a trace context that does not have the format of the W3C. */
function wrongTrace(message: Json): string | undefined {
  let wrong: string | undefined;
  eachTrace(message, (meta) => {
    if ('traceparent' in meta && !(isText(meta['traceparent']) && TRACEPARENT.test(meta['traceparent'])))
      wrong ??= 'traceparent';
    for (const key of ['tracestate', 'baggage'])
      if (key in meta && !(typeof meta[key] === 'string' && /^[\x20-\x7e\t]*$/.test(meta[key]))) wrong ??= key;
  });
  return wrong;
}

function eachTrace(message: Json, visit: (meta: Json) => void): void {
  eachObject([message['params'], message['result']], (object) => {
    const meta = asObject(object['_meta']);
    if ('traceparent' in meta || 'tracestate' in meta || 'baggage' in meta) visit(meta);
  });
}

const FIRST_RESULTS: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read']);
const asksForInput = (reply: Reply): boolean => reply.result?.['resultType'] === 'input_required';

export const UTILITY_OBSERVATIONS: Readonly<Record<string, Probe>> = {
  progress: (surface) => {
    let seen = 0;
    for (const reply of surface.peer.log) {
      const token = asObject(asObject(asObject(reply.sent)['params'])['_meta'])['progressToken'];
      let last = Number.NEGATIVE_INFINITY;
      for (const message of reply.messages.filter(isObject)) {
        if (!isNotification(message, 'notifications/progress')) continue;
        seen++;
        const { progressToken, progress } = asObject(message['params']);
        if (token === undefined || progressToken !== token)
          return fail('progress for a token that is not active', reply);
        if (typeof progress !== 'number' || progress <= last) return fail('progress does not increase', reply);
        last = progress;
      }
    }
    return seen === 0 ? skip('no progress was sent') : PASS;
  },
  traceContext: observation({
    about: ({ message }) => {
      let found = false;
      eachTrace(message, () => {
        found = true;
      });
      return found;
    },
    wrong: ({ message }) => {
      const key = wrongTrace(message);
      return key === undefined ? undefined : `${key} does not have the format of the W3C`;
    },
    none: 'no trace context was sent',
  }),
  serverCancels: observation({
    wrong: ({ message, reply }) =>
      isNotification(message, 'notifications/cancelled') && reply.method !== 'subscriptions/listen'
        ? 'the server cancelled a request'
        : undefined,
  }),
  cacheHints: replies(
    ({ method, result }) => CACHEABLE.has(method) && result !== undefined && result['resultType'] !== 'input_required',
    ({ method, result }) => {
      const { ttlMs, cacheScope } = result!;
      if (typeof ttlMs !== 'number' || ttlMs < 0)
        return `the result of ${method} has the ttlMs ${JSON.stringify(ttlMs)}`;
      const known = cacheScope === 'public' || cacheScope === 'private';
      return known ? undefined : `the result of ${method} has the cacheScope ${JSON.stringify(cacheScope)}`;
    },
    'nothing to cache',
  ),
  inputRequiredMethods: replies(
    ({ result }) => result !== undefined,
    (reply) =>
      asksForInput(reply) && !FIRST_RESULTS.has(reply.method)
        ? `the result of ${reply.method} asks for input`
        : undefined,
    'no result',
  ),
};
