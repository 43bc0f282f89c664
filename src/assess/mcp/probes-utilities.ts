/** Probes of paging, completion, logging, progress, caching, subscriptions, tasks and mirrored parameters. */
import { TASKS_EXTENSION } from '../../protocol/mcp/model.js';
import { asList, asObject, eachObject, isObject, isText, type Json } from '../json.js';
import { expect, fail, PASS, skip, type Verdict } from '../requirement.js';
import type { Reply } from '../wire/reply.js';
import { isNotification, observation, type Probe, replies } from './observed.js';
import { META } from './peer.js';
import { outcome, plainMethod, refusedWith, served } from './probes-base.js';
import { eachItem, firstList } from './probes-features.js';
import { NO_SUCH_NAME } from './probes-transport.js';
import { LIST_METHODS, type ListName, type McpSurface } from './surface.js';

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const MAX_VALUES = 100;
const CACHEABLE: ReadonlySet<string> = new Set([...Object.values(LIST_METHODS), 'resources/read', 'server/discover']);
const LISTS = Object.keys(LIST_METHODS) as ListName[];

/** The mirrored parameters of a tool: those that are reachable by names, and the others. */
function mirrored(tool: Json): { named: Json[]; elsewhere: boolean } {
  const named: Json[] = [];
  const walk = (schema: unknown): void => {
    for (const property of Object.values(asObject(asObject(schema)['properties']))) {
      if (asObject(property)['x-mcp-header'] !== undefined) named.push(asObject(property));
      walk(property);
    }
  };
  walk(tool['inputSchema']);
  let all = 0;
  eachObject(tool['inputSchema'], (object) => {
    if (object['x-mcp-header'] !== undefined && !isObject(object['x-mcp-header'])) all++;
  });
  return { named, elsewhere: all > named.length };
}

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

/** The first messages of a subscription; undefined if the server announces no changes. */
const listen = (surface: McpSurface): Promise<Reply | undefined> =>
  surface.once('listen', async () => {
    const { peer } = surface;
    const changing = Object.keys(LISTENED).find((name) => asObject(surface.capabilities[name])['listChanged'] === true);
    if (changing === undefined) return undefined;
    const notifications = { [LISTENED[changing]!]: true };
    const enough = (messages: readonly unknown[]): boolean => messages.length > 0;
    const reply = await peer.call('subscriptions/listen', { notifications }, { id: LISTEN_ID, enough });
    if (peer.transport === 'stdio')
      await peer.notify('notifications/cancelled', { requestId: LISTEN_ID, reason: 'assessed' });
    return reply;
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
        return fail(`${name}: nextCursor is no text`, list.pages[0]);
      if (new Set(cursors).size < cursors.length) return fail(`${name}: a cursor repeats itself`, list.pages.at(-1));
    }
    return lists === 0 ? skip('the server has no lists') : PASS;
  },
  completionsDeclared: async (surface) => {
    const reply = await completion(surface);
    if (reply === undefined) return skip('nothing to complete');
    const declared = surface.declares('completions');
    if (reply.result === undefined && !declared) return skip('the server completes nothing');
    if (!declared) return fail('arguments are completed, but completions is not declared', reply);
    return served(reply, 'completions is declared, but completion/complete fails');
  },
  completionValues: async (surface) => {
    const reply = await completion(surface);
    if (reply?.result === undefined) return skip('nothing was completed');
    const { values } = asObject(reply.result['completion']);
    if (!Array.isArray(values) || values.some((each) => typeof each !== 'string'))
      return fail('completion.values is no list of texts', reply);
    return expect(values.length <= MAX_VALUES, `${values.length} values`, reply);
  },
  badCompletion: async (surface) => {
    if (!surface.declares('completions')) return skip('completions is not declared');
    const params = { ref: { type: 'ref/prompt', name: NO_SUCH_NAME }, argument: { name: 'none', value: '' } };
    return refusedWith(await surface.peer.call('completion/complete', params), -32602);
  },
  badLogLevel: async (surface) => {
    if (!surface.declares('logging')) return skip('logging is not declared');
    return refusedWith(await surface.peer.call('logging/setLevel', { level: 'parley' }), -32602);
  },
  setLevel: async (surface) => {
    if (!surface.declares('logging')) return skip('logging is not declared');
    return served(await surface.peer.call('logging/setLevel', { level: 'warning' }), 'logging/setLevel fails');
  },
  badLogLevelMeta: async (surface) => {
    if (!surface.declares('logging')) return skip('logging is not declared');
    return refusedWith(await surface.peer.call(plainMethod(surface), {}, { meta: { [META.level]: 'parley' } }), -32602);
  },
  unknownCancel: async (surface) => {
    const { peer } = surface;
    if (surface.modern && peer.transport !== 'stdio') return skip('clients cancel by closing the stream');
    const reply = await peer.notify('notifications/cancelled', { requestId: 'parley-none', reason: 'assessed' });
    const answered = reply.messages.some((each) => isObject(each) && !('method' in each));
    const wrong = answered || (reply.status ?? 200) >= 400 || reply.failure !== undefined;
    return expect(!wrong, `a cancellation of an unknown request: ${outcome(reply)}`, reply);
  },
  cachePages: async (surface) => {
    for (const name of LISTS) {
      const list = await surface.list(name);
      const scopes = new Set(list?.pages.map((page) => page.result?.['cacheScope']));
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
    const allowed: ReadonlySet<unknown> = new Set([ACKNOWLEDGED, `notifications/${asked}/list_changed`]);
    const wrong = reply.messages.filter(isObject).find((each) => 'method' in each && !allowed.has(each['method']));
    return expect(wrong === undefined, `${wrong?.['method']} was not requested`, reply);
  }),
  unknownTask: async (surface) => {
    if (!surface.declares('tasks')) return skip('tasks is not declared');
    return refusedWith(await surface.peer.call('tasks/get', { taskId: 'parley-none' }), -32602);
  },
  unknownTaskExtension: async (surface) => {
    if (asObject(surface.capabilities['extensions'])[TASKS_EXTENSION] === undefined)
      return skip('the extension for tasks is not advertised');
    const reply = await surface.peer.call(
      'tasks/get',
      { taskId: 'parley-none' },
      {
        meta: { [META.capabilities]: { extensions: { [TASKS_EXTENSION]: {} } } },
        headers: { 'Mcp-Name': 'parley-none' },
      },
    );
    return refusedWith(reply, -32602);
  },
  noLegacyTasks: async (surface) => {
    if (surface.declares('tasks')) return fail('the capability tasks is advertised', surface.peer.opening);
    return refusedWith(await surface.peer.call('tasks/result', { taskId: 'parley-none' }), -32601);
  },
  mirrorNames: eachItem('tools', (tool) => {
    const names = mirrored(tool).named.map((each) => each['x-mcp-header']);
    const wrong = names.find((name) => typeof name !== 'string' || !TOKEN.test(name));
    if (wrong !== undefined) return `x-mcp-header is ${JSON.stringify(wrong)}`;
    return new Set(names.map((name) => String(name).toLowerCase())).size === names.length
      ? undefined
      : 'a header is used twice';
  }),
  mirrorTypes: eachItem('tools', (tool) => {
    const wrong = mirrored(tool).named.find(({ type }) => !['string', 'integer', 'boolean'].includes(String(type)));
    return wrong === undefined ? undefined : `x-mcp-header on the type ${JSON.stringify(wrong['type'])}`;
  }),
  mirrorPlaces: eachItem('tools', (tool) =>
    mirrored(tool).elsewhere ? 'x-mcp-header on a part that is not reachable by names' : undefined,
  ),
  mirrorRequired: async (surface) => {
    const tool = await surface.mirroredTool();
    if (tool === undefined) return skip('no tool that may be called has a mirrored parameter');
    const properties = Object.entries(asObject(asObject(tool['inputSchema'])['properties']));
    const samples: Json = { string: 'parley', integer: 1, number: 1, boolean: true, array: [], object: {} };
    const given = properties.map(([key, schema]) => [key, samples[String(asObject(schema)['type'])] ?? 'parley']);
    const params = { name: tool['name'], arguments: Object.fromEntries(given) };
    return refusedWith(await surface.peer.call('tools/call', params), -32020, 400);
  },
};

const FIRST_RESULTS: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read']);
const INPUT_METHODS: ReadonlySet<unknown> = new Set(['elicitation/create', 'sampling/createMessage', 'roots/list']);
const asksForInput = (reply: Reply): boolean => reply.result?.['resultType'] === 'input_required';
const NO_INPUT = 'no result asked for input';

export const UTILITY_OBSERVATIONS: Readonly<Record<string, Probe>> = {
  loggingDeclared: observation({
    about: ({ message }) => isNotification(message, 'notifications/message'),
    wrong: (_, surface) =>
      surface.declares('logging') ? undefined : 'a log message was sent, but logging is not declared',
    none: 'no log message was sent',
  }),
  unrequestedLogs: observation({
    wrong: ({ message, reply }) => {
      if (!isNotification(message, 'notifications/message')) return undefined;
      const meta = asObject(asObject(asObject(reply.sent)['params'])['_meta']);
      return META.level in meta ? undefined : 'a log message was sent to a request without logLevel';
    },
  }),
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
  inputRequiredShape: replies(
    asksForInput,
    ({ result }) => {
      const requests = Object.values(asObject(result!['inputRequests'])).map(asObject);
      if (requests.length === 0 && !isText(result!['requestState'])) return 'neither inputRequests nor requestState';
      const wrong = requests.find(({ method }) => !INPUT_METHODS.has(method));
      return wrong === undefined ? undefined : `an input request for ${wrong['method']}`;
    },
    NO_INPUT,
  ),
  inputRequiredCapabilities: replies(
    asksForInput,
    ({ result }) =>
      Object.keys(asObject(result!['inputRequests'])).length === 0
        ? undefined
        : 'input was asked with capabilities that the request did not declare',
    NO_INPUT,
  ),
};
