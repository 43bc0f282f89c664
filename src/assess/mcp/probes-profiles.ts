/** Probes of the rows that count in profiles only. */
import { headerOf } from '../../protocol/http/headers.js';
import { NEWEST, NEWEST_LEGACY } from '../../protocol/mcp/revisions/index.js';
import { asList, asObject, isText } from '../json.js';
import { expect } from '../requirement.js';
import { type Probe, replies } from './observed.js';
import { eachCall, eachItem } from './probes-features.js';
import { LIST_METHODS } from './surface.js';

const LISTS: ReadonlySet<string> = new Set(Object.values(LIST_METHODS));
const SLOW = 2_000;
const LARGE = 256 * 1024;
const LONG = 2_000;

export const PROFILE_PROBES: Readonly<Record<string, Probe>> = {
  openaiNames: eachItem('tools', ({ name }) =>
    /^[A-Za-z0-9_-]{1,64}$/.test(String(name)) ? undefined : 'the name has other characters or a wrong length',
  ),
  openaiDescriptions: eachItem('tools', ({ description }) => (isText(description) ? undefined : 'no description')),
  openaiText: eachCall(
    ({ reply }) => reply.result !== undefined,
    ({ reply }) =>
      asObject(asList(reply.result!['content'])[0])['type'] === 'text' ? undefined : 'the first block is not text',
    'no tool was called',
  ),
  shortDescriptions: eachItem('tools', ({ description }) =>
    String(description ?? '').length <= LONG ? undefined : `a description of ${String(description).length} characters`,
  ),
  newestRevision: ({ options, peer }) =>
    expect(options.revisions.includes(NEWEST.date), `the server does not speak ${NEWEST.date}`, peer.opening),
  newestLegacy: ({ options, peer }) =>
    expect(
      options.revisions.includes(NEWEST_LEGACY.date),
      `the server does not speak ${NEWEST_LEGACY.date}`,
      peer.opening,
    ),
  severalRevisions: ({ options, peer }) =>
    expect(options.revisions.length > 1, 'the server speaks one revision', peer.opening),
};

export const PROFILE_OBSERVATIONS: Readonly<Record<string, Probe>> = {
  quickLists: replies(
    ({ method }) => LISTS.has(method),
    ({ method, milliseconds }) => (milliseconds < SLOW ? undefined : `${method} took longer than ${SLOW} ms`),
    'no list was asked for',
  ),
  smallLists: replies(
    ({ method }) => LISTS.has(method),
    ({ method, response }) =>
      JSON.stringify(response ?? {}).length <= LARGE ? undefined : `a page of ${method} is longer than ${LARGE} bytes`,
    'no list was asked for',
  ),
  keepAlive: replies(
    ({ status }) => status === 200,
    ({ headers }) => (headerOf(headers, 'connection') === 'close' ? 'the server closed the connection' : undefined),
    'no request was answered',
  ),
  usefulCache: replies(
    ({ method, result }) => LISTS.has(method) && result !== undefined,
    ({ method, result }) => (Number(result!['ttlMs']) > 0 ? undefined : `the result of ${method} may not be cached`),
    'no list was asked for',
  ),
};
