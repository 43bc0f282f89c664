/** Probes of tools, resources and prompts. */
import { asList, asObject, canonical, conforms, isBase64, isObject, isText, type Json, parseJson } from '../json.js';
import { expect, fail, PASS, skip } from '../requirement.js';
import type { Reply } from '../wire/reply.js';
import type { Probe } from './observed.js';
import { outcome, refusedWith, served } from './probes-base.js';
import { NO_SUCH_NAME, NO_SUCH_URI } from './probes-transport.js';
import { LIST_METHODS, type ListName, type McpSurface, type ToolCall } from './surface.js';

/** A probe of each item of a list. `wrong` tells what is wrong with an item. */
export const eachItem =
  (name: ListName, wrong: (item: Json, surface: McpSurface) => string | undefined): Probe =>
  async (surface) => {
    const list = await surface.list(name);
    if (list === undefined) return skip(`the server declares no ${name}`);
    if (list.items.length === 0) return skip(`the list of ${name} is empty`);
    for (const item of list.items) {
      const reason = wrong(item, surface);
      if (reason !== undefined) return fail(`${String(item['name'] ?? item['uri'])}: ${reason}`, list.pages[0]);
    }
    return PASS;
  };

/** A probe of each call of a tool. */
export const eachCall =
  (
    about: (call: ToolCall) => boolean,
    wrong: (call: ToolCall, surface: McpSurface) => string | undefined,
    none: string,
  ): Probe =>
  async (surface) => {
    const calls = (await surface.calls()).filter((call) => about(call));
    for (const call of calls) {
      const reason = wrong(call, surface);
      if (reason !== undefined) return fail(`${call.tool['name']}: ${reason}`, call.reply);
    }
    return calls.length === 0 ? skip(none) : PASS;
  };

const NO_CALLS = 'no tool declares itself read-only and takes no arguments; --active also calls other tools';

const NO_RESULTS = `no call had a result: ${NO_CALLS}`;

/** A capability and its list: declared if it works, and working if it is declared. */
const declared =
  (name: ListName): Probe =>
  async (surface) => {
    const list = await surface.list(name);
    if (list !== undefined) {
      const [page] = list.pages;
      const right = page?.result !== undefined && Array.isArray(page.result[name]);
      return expect(right, `${name} is declared, but ${LIST_METHODS[name]} fails: ${outcome(page!)}`, page);
    }
    const reply = await surface.peer.call(LIST_METHODS[name], {});
    const found = asList(reply.result?.[name]).length > 0;
    return found ? fail(`${name} are served, but not declared`, reply) : skip(`the server has no ${name}`);
  };

const sorted = (items: readonly Json[]): string => items.map(canonical).sort().join('\n');

/** Whether a list is the same on a new connection. */
const sameElsewhere =
  (name: ListName): Probe =>
  async (surface) => {
    const list = await surface.list(name);
    if (list === undefined) return skip(`the server declares no ${name}`);
    const other = await surface.options.fresh();
    const again = await surface.pages(name, other);
    await other.close();
    if (sorted(list.items) === sorted(again.items)) return PASS;
    const now = await surface.pages(name);
    if (sorted(now.items) === sorted(again.items)) return skip('the list changed during the assessment');
    return fail('the list differs on another connection', again.pages[0]);
  };

const okCall = ({ reply }: ToolCall): boolean =>
  reply.result !== undefined && reply.result['resultType'] !== 'input_required';

/** What is wrong with a content block, in the revision of the surface. */
export function wrongContent(block: unknown, { peer }: McpSurface): string | undefined {
  const { expresses } = peer.revision;
  if (!isObject(block)) return 'a content block is not an object';
  switch (block['type']) {
    case 'text':
      return typeof block['text'] === 'string' ? undefined : 'a text block without text';
    case 'audio':
      if (!expresses.audio) return 'audio is not part of the revision';
      return isBase64(block['data']) && isText(block['mimeType']) ? undefined : 'an audio block without base64 or type';
    case 'image':
      return isBase64(block['data']) && isText(block['mimeType']) ? undefined : 'an image block without base64 or type';
    case 'resource':
      return wrongContents(block['resource']);
    case 'resource_link':
      if (!expresses.resourceLinks) return 'resource_link is not part of the revision';
      return isText(block['uri']) && isText(block['name']) ? undefined : 'a link without uri or name';
    default:
      return `a content block of the type ${JSON.stringify(block['type'])}`;
  }
}

function wrongContents(contents: unknown): string | undefined {
  if (!isObject(contents) || !isText(contents['uri'])) return 'contents without a uri';
  if (typeof contents['text'] === 'string') return undefined;
  if (contents['blob'] === undefined) return 'contents without text and blob';
  return isBase64(contents['blob']) ? undefined : 'a blob that is not base64';
}

const HINTS = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'];
const SCHEME = /^[A-Za-z][A-Za-z0-9+.-]*:\S+$/;
const ICON = /^(https:|data:)/;

function wrongSchema(schema: Json): string | undefined {
  const { properties, required } = schema;
  if (properties !== undefined && !isObject(properties)) return 'properties is not an object';
  const wrong = Object.entries(asObject(properties)).find(([, each]) => !isObject(each) && typeof each !== 'boolean');
  if (wrong !== undefined) return `the property ${wrong[0]} has no schema`;
  if (required === undefined) return undefined;
  return Array.isArray(required) && required.every((each) => typeof each === 'string')
    ? undefined
    : 'required is not a list of names';
}

async function badCall(surface: McpSurface): Promise<Reply | undefined> {
  const tool = await surface.strictTool();
  if (tool === undefined) return undefined;
  return surface.once('bad call', () => surface.peer.call('tools/call', { name: tool['name'], arguments: {} }));
}

const ASKS = 'the tool asks for what is missing';
const asksForInput = ({ result }: Reply): boolean => result?.['resultType'] === 'input_required';

const missing = (surface: McpSurface): Promise<Reply> =>
  surface.once('missing resource', () => surface.peer.call('resources/read', { uri: NO_SUCH_URI }));

/** Whether a reply shows that the server has a method, or lacks it. Other errors may concern one item only. */
const answersFor = ({ result, code }: Reply): boolean => result !== undefined || code === -32601;

const NO_STRICT_TOOL = 'no tool that may be called requires an argument';

export const FEATURE_PROBES: Readonly<Record<string, Probe>> = {
  toolsDeclared: declared('tools'),
  resourcesDeclared: declared('resources'),
  promptsDeclared: declared('prompts'),
  toolsPerConnection: sameElsewhere('tools'),
  resourcesPerConnection: sameElsewhere('resources'),
  toolOrder: async (surface) => {
    const list = await surface.list('tools');
    if (list === undefined) return skip('the server declares no tools');
    const again = await surface.pages('tools');
    const [before, after] = [list, again].map(({ items }) => items.map(({ name }) => String(name)));
    if (before!.join('\n') === after!.join('\n')) return PASS;
    if (before!.toSorted().join('\n') !== after!.toSorted().join('\n'))
      return skip('the list changed during the assessment');
    return fail('the order differs', again.pages[0]);
  },
  toolShape: eachItem('tools', (tool) =>
    isText(tool['name']) && tool['inputSchema'] !== undefined ? undefined : 'no name or no inputSchema',
  ),
  inputSchema: eachItem('tools', (tool) =>
    asObject(tool['inputSchema'])['type'] === 'object' ? undefined : 'the inputSchema does not have the type object',
  ),
  schemaParts: eachItem('tools', (tool) => wrongSchema(asObject(tool['inputSchema']))),
  outputSchema: eachItem('tools', (tool, { modern }) => {
    const schema = tool['outputSchema'];
    if (schema === undefined) return undefined;
    if (!isObject(schema)) return 'the outputSchema is not an object';
    return modern || schema['type'] === 'object' ? undefined : 'the outputSchema does not have the type object';
  }),
  toolAnnotations: eachItem('tools', ({ annotations }) => {
    if (annotations === undefined) return undefined;
    if (!isObject(annotations)) return 'annotations is not an object';
    const wrong = HINTS.find((hint) => hint in annotations && typeof annotations[hint] !== 'boolean');
    return wrong === undefined ? undefined : `${wrong} is not a boolean`;
  }),
  titles: async (surface) => {
    let seen = 0;
    for (const name of ['tools', 'resources', 'resourceTemplates', 'prompts'] as const) {
      const list = await surface.list(name);
      for (const { title, name: item } of list?.items ?? []) {
        if (title === undefined) continue;
        seen++;
        if (typeof title !== 'string') return fail(`${String(item)}: the title is not a text`, list!.pages[0]);
      }
    }
    return seen === 0 ? skip('nothing has a title') : PASS;
  },
  schemaDialect: eachItem('tools', (tool) => {
    const dialects = [tool['inputSchema'], tool['outputSchema']].map((schema) => asObject(schema)['$schema']);
    const wrong = dialects.find((each) => each !== undefined && !(isText(each) && URL.canParse(each)));
    return wrong === undefined ? undefined : `$schema is ${JSON.stringify(wrong)}`;
  }),
  appResources: async (surface) => {
    const list = await surface.list('tools');
    const addresses = (list?.items ?? []).flatMap((tool) => {
      const { resourceUri } = asObject(asObject(tool['_meta'])['ui']);
      return resourceUri === undefined ? [] : [resourceUri];
    });
    const [first] = addresses;
    if (first === undefined) return skip('no tool has a user interface');
    const wrong = addresses.find((uri) => !String(uri).startsWith('ui://'));
    if (wrong !== undefined) return fail(`the user interface is at ${String(wrong)}`, list!.pages[0]);
    const reply = await surface.peer.call('resources/read', { uri: first });
    const [contents] = asList(reply.result?.['contents']).map(asObject);
    if (contents === undefined) return fail(`the user interface cannot be read: ${outcome(reply)}`, reply);
    return expect(
      /^text\/html\s*;\s*profile=mcp-app$/.test(String(contents['mimeType'])),
      `the user interface has the type ${JSON.stringify(contents['mimeType'])}`,
      reply,
    );
  },
  toolNames: eachItem('tools', ({ name }) =>
    /^[A-Za-z0-9_.-]{1,128}$/.test(String(name)) ? undefined : 'the name has other characters or a wrong length',
  ),
  toolNamesUnique: async (surface) => {
    const list = await surface.list('tools');
    if (list === undefined) return skip('the server declares no tools');
    const names = list.items.map(({ name }) => name);
    return expect(new Set(names).size === names.length, 'a name stands twice in the list', list.pages[0]);
  },
  icons: eachItem('tools', ({ icons }) => {
    const wrong = asList(icons).find((icon) => !ICON.test(String(asObject(icon)['src'])));
    return wrong === undefined ? undefined : `an icon at ${String(asObject(wrong)['src'])}`;
  }),
  structuredContent: eachCall(
    (call) => okCall(call) && call.tool['outputSchema'] !== undefined && call.reply.result!['isError'] !== true,
    ({ tool, reply }) => {
      if (!('structuredContent' in reply.result!)) return 'structuredContent is missing';
      const right = conforms(reply.result['structuredContent'], tool['outputSchema']);
      return right ? undefined : 'structuredContent does not conform to the outputSchema';
    },
    'no tool with an outputSchema was called',
  ),
  structuredText: eachCall(
    (call) => okCall(call) && 'structuredContent' in call.reply.result!,
    ({ reply }) => {
      const text = canonical(reply.result!['structuredContent']);
      const blocks = asList(reply.result!['content']).filter(isObject);
      const found = blocks.some((block) => isText(block['text']) && canonical(parseJson(block['text']) ?? '') === text);
      return found ? undefined : 'no text block repeats the structured content';
    },
    'no tool with structured content was called',
  ),
  callResult: eachCall(
    // A call may fail for reasons of the tool, or take longer than the time of an answer.
    ({ reply }) => reply.result !== undefined,
    ({ reply }) => {
      if (reply.result!['resultType'] === 'input_required') return undefined;
      if (!Array.isArray(reply.result!['content'])) return 'the result has no content';
      const flag = reply.result!['isError'];
      return flag === undefined || typeof flag === 'boolean' ? undefined : 'isError is not a boolean';
    },
    NO_RESULTS,
  ),
  contentBlocks: eachCall(
    okCall,
    ({ reply }, surface) => {
      for (const block of asList(reply.result!['content'])) {
        const reason = wrongContent(block, surface);
        if (reason !== undefined) return reason;
      }
      return undefined;
    },
    NO_CALLS,
  ),
  embeddedResources: eachCall(
    (call) => asList(call.reply.result?.['content']).some((block) => asObject(block)['type'] === 'resource'),
    (_, surface) => (surface.declares('resources') ? undefined : 'resources are not declared'),
    'no call returned an embedded resource',
  ),
  unknownTool: async (surface) => {
    if (!surface.declares('tools')) return skip('the server declares no tools');
    return refusedWith(await surface.peer.call('tools/call', { name: NO_SUCH_NAME, arguments: {} }), -32602);
  },
  badArguments: async (surface) => {
    const reply = await badCall(surface);
    if (reply === undefined) return skip(NO_STRICT_TOOL);
    if (asksForInput(reply)) return skip(ASKS);
    return expect(reply.result?.['isError'] === true, `expected a result with isError, ${outcome(reply)}`, reply);
  },
  badArgumentsRefused: async (surface) => {
    const reply = await badCall(surface);
    if (reply === undefined) return skip(NO_STRICT_TOOL);
    const { result, error, status = 200 } = reply;
    if (asksForInput(reply)) return skip(ASKS);
    if (result === undefined && error === undefined && status < 400)
      return skip(`the call has no answer: ${outcome(reply)}`);
    const refused = result === undefined || result['isError'] === true;
    return expect(refused, 'a call without required arguments was executed', reply);
  },

  missingResource: async (surface) => {
    if (!surface.declares('resources')) return skip('the server declares no resources');
    return refusedWith(await missing(surface), surface.modern ? -32602 : -32002);
  },
  missingResourceUri: async (surface) => {
    if (!surface.declares('resources')) return skip('the server declares no resources');
    const reply = await missing(surface);
    if (reply.error === undefined) return skip('there was no error');
    return expect(asObject(reply.error['data'])['uri'] === NO_SUCH_URI, 'the error does not name the uri', reply);
  },
  resourceContents: async (surface) => {
    const reply = await surface.firstResource();
    if (reply === undefined) return skip('the server lists no resources');
    if (reply.result?.['resultType'] === 'input_required') return skip('the resource asks for input');
    if (!answersFor(reply)) return skip(`the resource cannot be read: ${outcome(reply)}`);
    const contents = asList(reply.result?.['contents']);
    if (contents.length === 0) return fail(`no contents: ${outcome(reply)}`, reply);
    const reason = contents.map(wrongContents).find((each) => each !== undefined);
    return expect(reason === undefined, reason ?? '', reply);
  },
  resourceUris: eachItem('resources', (resource) => {
    if (!isText(resource['name'])) return 'no name';
    return SCHEME.test(String(resource['uri'])) ? undefined : 'the uri has no scheme';
  }),
  templates: eachItem('resourceTemplates', (template) => {
    if (!isText(template['name'])) return 'no name';
    const text = template['uriTemplate'];
    if (!isText(text)) return 'no uriTemplate';
    return /[{}]/.test(text.replace(/\{[^{}\s]+\}/g, '')) ? 'the uriTemplate has unbalanced braces' : undefined;
  }),
  subscribe: async (surface) => {
    if (asObject(surface.capabilities['resources'])['subscribe'] !== true)
      return skip('resources.subscribe is not declared');
    const [first] = (await surface.list('resources'))?.items ?? [];
    if (first === undefined) return skip('the server lists no resources');
    const reply = await surface.peer.call('resources/subscribe', { uri: first['uri'] });
    if (reply.result !== undefined) await surface.peer.call('resources/unsubscribe', { uri: first['uri'] });
    return served(reply, 'resources/subscribe was refused');
  },
  unknownPrompt: async (surface) => {
    if (!surface.declares('prompts')) return skip('the server declares no prompts');
    return refusedWith(await surface.peer.call('prompts/get', { name: NO_SUCH_NAME }), -32602);
  },
  missingPromptArguments: async (surface) => {
    const strict = (await surface.list('prompts'))?.items.find((prompt) =>
      asList(prompt['arguments']).some((each) => asObject(each)['required'] === true),
    );
    if (strict === undefined) return skip('no prompt requires an argument');
    return refusedWith(await surface.peer.call('prompts/get', { name: strict['name'], arguments: {} }), -32602);
  },
  promptMessages: async (surface) => {
    const reply = await surface.firstPrompt();
    if (reply === undefined) return skip('no prompt without required arguments');
    if (reply.result?.['resultType'] === 'input_required') return skip('the prompt asks for input');
    if (!answersFor(reply)) return skip(`the prompt cannot be made: ${outcome(reply)}`);
    const messages = reply.result?.['messages'];
    if (!Array.isArray(messages)) return fail(`no messages: ${outcome(reply)}`, reply);
    for (const message of messages.map(asObject)) {
      if (message['role'] !== 'user' && message['role'] !== 'assistant') return fail('a message without a role', reply);
      const reason = wrongContent(message['content'], surface);
      if (reason !== undefined) return fail(reason, reply);
    }
    return PASS;
  },
  promptShape: eachItem('prompts', (prompt) => {
    if (!isText(prompt['name'])) return 'no name';
    const { arguments: list } = prompt;
    if (list !== undefined && !Array.isArray(list)) return 'arguments is not a list';
    return asList(list).every((each) => isText(asObject(each)['name'])) ? undefined : 'an argument without a name';
  }),
};

/** The first list that the server declares. */
export const firstList = (surface: McpSurface): ListName | undefined =>
  (['tools', 'resources', 'prompts'] as const).find((name) => surface.declares(name));
