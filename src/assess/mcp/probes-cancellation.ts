/** The probe of the cancellations that the server sends. */
import { sleep } from '../../core/timing.js';
import { asObject, isObject, type Json } from '../json.js';
import { fail, PASS, skip } from '../requirement.js';
import { askableCapabilities, declined, interactions } from './interaction.js';
import { isNotification, isRequest, isResponse, type Probe, seenBy } from './observed.js';
import type { Peer } from './peer.js';
import type { McpSurface } from './surface.js';

const CALL = 'parley-cancelled-call';
const AFTER = 'parley-after-cancellation';
/** Time for messages that follow a cancellation over Streamable HTTP, in milliseconds. */
const SETTLE = 250;

/** A server may ask for roots on its own at any time. */
const asksUser = (message: Json): boolean => isRequest(message) && message['method'] !== 'roots/list';

/**
 * Calls a tool that asks the user, and cancels the call after its first questions. The server may then cancel these
 * questions, and nothing else. Returns the connection; undefined if no tool asked.
 */
async function cancelledCall(surface: McpSurface): Promise<Peer | undefined> {
  const { calls } = await interactions(surface);
  const known = calls.find(({ questions }) => questions.some(({ method }) => method !== 'roots/list'));
  if (known === undefined) return undefined;
  const peer = await surface.options.fresh({ capabilities: askableCapabilities(surface) });
  // Over Streamable HTTP the answer to another request does not come on the stream of the call.
  const last = peer.transport === 'http' ? CALL : AFTER;
  let cancelling: Promise<void> | undefined;
  const params = { name: known.tool['name'], arguments: {} };
  const enough = (given: readonly unknown[]): boolean => {
    const messages = given.flat().filter(isObject);
    const questions = messages.filter(asksUser);
    if (questions.length > 0) cancelling ??= cancel(peer, questions).catch(() => {});
    return messages.some((each) => isResponse(each) && each['id'] === last);
  };
  await peer.call('tools/call', params, { id: CALL, enough });
  await cancelling;
  await peer.close();
  return cancelling && peer;
}

async function cancel(peer: Peer, questions: readonly Json[]): Promise<void> {
  const params = { requestId: CALL, reason: 'assessed' };
  await peer.aside({ jsonrpc: '2.0', method: 'notifications/cancelled', params });
  // A server that does not cancel its questions would wait for the answers.
  for (const { id, method } of questions) await peer.aside({ jsonrpc: '2.0', id, ...declined(String(method)) });
  if (peer.transport !== 'http') return peer.aside({ jsonrpc: '2.0', id: AFTER, method: 'ping' });
  // Some servers leave the stream of a cancelled call open until the session ends.
  await sleep(SETTLE);
  await peer.close();
}

/**
 * Whether an id certainly names no request of the server. On a channel, all its requests are known. Over Streamable HTTP
 * one may have come on another stream, and both sides may use the same ids: only an id of this probe is certain there.
 */
const isForeign = (id: unknown, { asked }: Peer): boolean =>
  asked === undefined ? id === CALL : id !== undefined && !asked.has(id);

export const CANCELLATION_OBSERVATIONS: Readonly<Record<string, Probe>> = {
  cancelsOwn: async (surface) => {
    const own = await cancelledCall(surface);
    for (const peer of own === undefined ? [surface.peer] : [surface.peer, own])
      for (const { message, reply } of seenBy({ peer })) {
        if (!isNotification(message, 'notifications/cancelled') || surface.earlier.has(reply)) continue;
        const { requestId } = asObject(message['params']);
        if (isForeign(requestId, peer))
          return fail(`the server cancelled ${JSON.stringify(requestId)}, which is no request of its own`, reply);
      }
    return own === undefined ? skip('no tool that may be called asked the user') : PASS;
  },
};
