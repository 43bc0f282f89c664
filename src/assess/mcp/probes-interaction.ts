/** Probes of questions to the user and the model: elicitation, sampling, roots, and results that ask for input. */
import { asList, asObject, isObject, isText, type Json } from '../json.js';
import { expect, fail, PASS, skip } from '../requirement.js';
import type { Reply } from '../wire/reply.js';
import { askableCapabilities, declined, type Interaction, interactions, urlInteractions } from './interaction.js';
import { type Probe, replies } from './observed.js';
import { credentialsOf, META } from './peer.js';
import { outcome } from './probes-base.js';
import type { McpSurface } from './surface.js';

const NO_QUESTION = 'no tool that may be called asked the client';
const PRIMITIVES: ReadonlySet<unknown> = new Set(['string', 'number', 'integer', 'boolean']);
/** Names of form fields that ask for secrets. */
export const SECRET_NAME =
  /^(password|passwd|passphrase|secret|client[_-]?secret|api[_-]?key|access[_-]?token|private[_-]?key|credit[_-]?card|ssn|credentials?)$/i;

/** A probe of each question with one of the methods. */
const eachQuestion =
  (method: string, wrong: (params: Json, surface: McpSurface) => string | undefined): Probe =>
  async (surface) => {
    const own = (await interactions(surface)).questions.filter((each) => each.method === method);
    for (const question of own) {
      const reason = wrong(question.params, surface);
      if (reason !== undefined) return fail(reason, question.reply);
    }
    return own.length === 0 ? skip(NO_QUESTION) : PASS;
  };

/** Names of query parameters that carry secrets. */
const SECRET_PARAMETER =
  /^(password|passwd|secret|client_secret|api_?key|(access_|refresh_|id_|auth_|session_)?token|jwt)$/i;
/** Shorter values occur in URLs by chance. */
const SHORTEST_SECRET = 8;

function carriesCredentials(given: unknown, { peer }: McpSurface): boolean {
  if (!isText(given) || !URL.canParse(given)) return false;
  const url = new URL(given);
  if (url.username !== '' || url.password !== '') return true;
  if ([...url.searchParams.keys()].some((name) => SECRET_PARAMETER.test(name))) return true;
  return credentialsOf(peer).some((secret) => secret.length >= SHORTEST_SECRET && given.includes(secret));
}

const fields = (params: Json): [string, Json][] =>
  Object.entries(asObject(asObject(params['requestedSchema'])['properties'])).map(([name, schema]) => [
    name,
    asObject(schema),
  ]);

/** The reason why a field of a form is neither a primitive nor a choice. */
function wrongField([name, schema]: [string, Json], { peer }: McpSurface): string | undefined {
  if (PRIMITIVES.has(schema['type'])) return undefined;
  const choices = peer.revision.expresses.richForms && schema['type'] === 'array' && isObject(schema['items']);
  if (choices || Array.isArray(schema['enum']) || Array.isArray(schema['oneOf'])) return undefined;
  return `the field ${name} is neither a primitive nor a choice`;
}

const blocks = (message: unknown): Json[] => {
  const { content } = asObject(message);
  return (Array.isArray(content) ? content : [content]).map(asObject);
};

const asksForInput = ({ reply }: Interaction): boolean => reply.result?.['resultType'] === 'input_required';

/**
 * Calls a tool that asks for input, and calls it again with other answers; undefined if no tool asks. It calls from the
 * beginning each time, because a server may accept its state once only.
 */
async function retry(surface: McpSurface, answers: (asked: Json) => unknown): Promise<Reply | undefined> {
  const known = (await interactions(surface)).calls.find((call) => asksForInput(call) && call.questions.length > 0);
  if (known === undefined) return undefined;
  const params = { name: known.tool['name'], arguments: {} };
  const meta = { [META.capabilities]: askableCapabilities(surface) };
  const other = await surface.options.fresh();
  const { result } = await other.call('tools/call', params, { meta });
  const { inputRequests, requestState } = asObject(result);
  const inputResponses = answers(asObject(inputRequests));
  const again = {
    ...params,
    ...(requestState !== undefined && { requestState }),
    ...(inputResponses !== undefined && { inputResponses }),
  };
  const reply = await other.call('tools/call', again, { meta });
  await other.close();
  return reply;
}

/** Declined answers to every question. Questions that a user cannot decline are answered with nothing. */
const declinedAnswers = (asked: Json): Json =>
  Object.fromEntries(
    Object.entries(asked).flatMap(([key, each]) => {
      const { result } = declined(String(asObject(each)['method']));
      return result === undefined ? [] : [[key, result]];
    }),
  );

export const INTERACTION_PROBES: Readonly<Record<string, Probe>> = {
  elicitationMode: eachQuestion('elicitation/create', ({ mode }) =>
    mode === undefined || mode === 'form' ? undefined : `the mode ${JSON.stringify(mode)} was not declared`,
  ),
  elicitationUrl: async (surface) => {
    const { questions, log } = await urlInteractions(surface);
    const asked = questions
      .filter(({ method, params }) => method === 'elicitation/create' && params['mode'] === 'url')
      .map(({ params, reply }) => ({ url: params['url'], reply }));
    const errors = log.filter(({ code }) => code === -32042);
    const listed = errors.flatMap((reply) =>
      asList(asObject(reply.error!['data'])['elicitations']).map((each) => ({ url: asObject(each)['url'], reply })),
    );
    const all = [...asked, ...listed];
    const wrong = all.find(({ url }) => carriesCredentials(url, surface));
    if (wrong !== undefined) return fail('a URL for the user carries credentials', wrong.reply);
    return all.length === 0 ? skip('no tool that may be called asked the user to open a URL') : PASS;
  },
  capabilitiesForgotten: async (surface) => {
    const known = (await interactions(surface)).calls.find((call) => asksForInput(call) && call.questions.length > 0);
    if (known === undefined) return skip(NO_QUESTION);
    const other = await surface.options.fresh();
    const params = { name: known.tool['name'], arguments: {} };
    await other.call('tools/call', params, { meta: { [META.capabilities]: askableCapabilities(surface) } });
    const reply = await other.call('tools/call', params);
    await other.close();
    const asked = Object.keys(asObject(reply.result?.['inputRequests'])).length > 0;
    return expect(!asked, 'the capabilities of an earlier request were used for a later request', reply);
  },
  elicitationSecrets: eachQuestion('elicitation/create', (params) => {
    const wrong = fields(params).find(([name]) => SECRET_NAME.test(name));
    return wrong === undefined ? undefined : `a form asks for ${wrong[0]}`;
  }),
  elicitationForm: eachQuestion('elicitation/create', (params, surface) => {
    if (params['mode'] === 'url') return undefined;
    if (!isText(params['message'])) return 'a form without a message';
    if (asObject(params['requestedSchema'])['type'] !== 'object')
      return 'the requestedSchema does not have the type object';
    return fields(params)
      .map((field) => wrongField(field, surface))
      .find((each) => each !== undefined);
  }),
  samplingTools: eachQuestion('sampling/createMessage', (params) =>
    'tools' in params || 'toolChoice' in params ? 'sampling with tools was not declared' : undefined,
  ),
  samplingMessages: eachQuestion('sampling/createMessage', (params) => {
    const mixed = asList(params['messages']).some((message) => {
      const results = blocks(message).filter(({ type }) => type === 'tool_result').length;
      return results > 0 && results < blocks(message).length;
    });
    return mixed ? 'a message mixes tool results with other content' : undefined;
  }),
  samplingContext: eachQuestion('sampling/createMessage', ({ includeContext }) =>
    includeContext === undefined || includeContext === 'none'
      ? undefined
      : `includeContext is ${JSON.stringify(includeContext)}, but sampling.context was not declared`,
  ),
  declinedQuestion: async (surface) => {
    if (surface.modern) {
      const reply = await retry(surface, declinedAnswers);
      if (reply === undefined) return skip(NO_QUESTION);
      return expect(
        reply.response !== undefined,
        `the call repeated with a declined answer got no response: ${outcome(reply)}`,
        reply,
      );
    }
    // A server may ask for roots on its own at any time, and nobody declines that.
    const asked = (await interactions(surface)).calls.filter(({ questions }) =>
      questions.some(({ method }) => method !== 'roots/list'),
    );
    const stuck = asked.find(({ reply }) => reply.response === undefined);
    if (stuck !== undefined) return fail('a call got no response after its question was declined', stuck.reply);
    return asked.length === 0 ? skip(NO_QUESTION) : PASS;
  },
  missingAnswers: async (surface) => {
    const reply = await retry(surface, () => undefined);
    if (reply === undefined) return skip(NO_QUESTION);
    return expect(
      reply.result?.['resultType'] === 'input_required',
      `a call without the answers did not ask again: ${outcome(reply)}`,
      reply,
    );
  },
  malformedAnswers: async (surface) => {
    const reply = await retry(surface, () => 'parley');
    if (reply === undefined) return skip(NO_QUESTION);
    return expect(reply.error !== undefined, `malformed answers were accepted: ${outcome(reply)}`, reply);
  },
  unknownAnswers: async (surface) => {
    const known = await retry(surface, declinedAnswers);
    if (known?.result === undefined) return skip(known === undefined ? NO_QUESTION : 'the known answers were refused');
    const reply = (await retry(surface, (asked) => ({
      ...declinedAnswers(asked),
      'parley-unknown': { action: 'decline' },
    })))!;
    return expect(reply.result !== undefined, `an unknown answer was not ignored: ${outcome(reply)}`, reply);
  },
};

const INPUT_METHODS: ReadonlySet<unknown> = new Set(['elicitation/create', 'sampling/createMessage', 'roots/list']);
const NO_INPUT = 'no result asked for input';

/** Everything that arrived, also on the connection with capabilities. */
const everyResult = async (surface: McpSurface): Promise<Reply[]> =>
  [...surface.peer.log, ...(await interactions(surface)).log].filter(
    ({ result }) => result?.['resultType'] === 'input_required',
  );

const eachInputResult =
  (wrong: (result: Json) => string | undefined): Probe =>
  async (surface) => {
    const asking = await everyResult(surface);
    for (const reply of asking) {
      const reason = wrong(reply.result!);
      if (reason !== undefined) return fail(reason, reply);
    }
    return asking.length === 0 ? skip(NO_INPUT) : PASS;
  };

/** The problem with a URL elicitation in an error. */
const wrongUrlItem = (item: Json): boolean =>
  item['mode'] !== 'url' || !isText(item['elicitationId']) || !URL.canParse(String(item['url']));

export const INTERACTION_OBSERVATIONS: Readonly<Record<string, Probe>> = {
  inputRequiredShape: eachInputResult((result) => {
    const requests = Object.values(asObject(result['inputRequests'])).map(asObject);
    if (requests.length === 0 && !isText(result['requestState'])) return 'neither inputRequests nor requestState';
    const wrong = requests.find(({ method }) => !INPUT_METHODS.has(method));
    return wrong === undefined ? undefined : `an input request for ${wrong['method']}`;
  }),
  inputUncached: eachInputResult((result) =>
    'ttlMs' in result || 'cacheScope' in result ? 'a result that asks for input has hints for caches' : undefined,
  ),
  inputRequiredCapabilities: replies(
    ({ result }) => result?.['resultType'] === 'input_required',
    ({ result }) =>
      Object.keys(asObject(result!['inputRequests'])).length === 0
        ? undefined
        : 'input was asked with capabilities that the request did not declare',
    NO_INPUT,
  ),
  missingCapability: replies(
    ({ code }) => code === -32021,
    ({ error, status, stream }) => {
      if (!isObject(asObject(error!['data'])['requiredCapabilities']))
        return 'the error -32021 has no object data.requiredCapabilities';
      return status === undefined || status === 400 || stream ? undefined : `the error -32021 has the status ${status}`;
    },
    'no request lacked a capability',
  ),
  urlErrors: replies(
    ({ code }) => code === -32042,
    ({ error }) => {
      const items = asList(asObject(error!['data'])['elicitations']).map(asObject);
      return items.length > 0 && !items.some(wrongUrlItem)
        ? undefined
        : 'the error -32042 lists no URL elicitations with ids';
    },
    'no request led to the error -32042',
  ),
};
