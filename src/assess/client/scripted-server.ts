/** The script of a server for clients under examination. It speaks every revision, and asks the client questions. */
import { sleep } from '../../core/timing.js';
import { MODERN, NEWEST_LEGACY, revisionOf } from '../../protocol/mcp/revisions/index.js';
import { asObject, isObject, isText, type Json } from '../json.js';
import type { Transcript } from './transcript.js';

const INFO = { name: 'parley-assess-client', version: '1' };
const PREFIX = 'io.modelcontextprotocol';
const FIRST = { name: 'hello', description: 'Says hello.', inputSchema: { type: 'object', properties: {} } };
const SECOND = { ...FIRST, name: 'bye', description: 'Says goodbye.' };
/** Cursors are opaque: a client that changes them is found. */
const CURSOR = 'parley "second" page=2 ';
const STATE = 'parley request state';

/** Time that the client has for the answers to the questions of a call, in milliseconds. */
const ANSWER_TIME = 2_000;

type Send = (message: Json) => void;

export class ScriptedServer {
  private ids = 0;
  private asked = false;

  constructor(readonly transcript: Transcript) {}

  /** Asks the questions of the script, once, on a channel to the client. */
  ask(send: Send): void {
    const { transcript } = this;
    if (this.asked || transcript.revision?.era !== 'legacy') return;
    this.asked = true;
    const { capabilities } = transcript;
    const methods = ['ping', 'parley/unknown', ...(isObject(capabilities['roots']) ? ['roots/list'] : [])];
    for (const method of methods) {
      const id = `parley-${++this.ids}`;
      transcript.questions.set(id, { method, answers: [] });
      send({ jsonrpc: '2.0', id, method });
    }
    // A notification is never answered.
    send({ jsonrpc: '2.0', method: 'notifications/parley' });
  }

  /** The response to a request; undefined for notifications and responses. */
  async receive(message: unknown, send: Send): Promise<Json | undefined> {
    if (!isObject(message)) return refusal(null, -32600, 'No batch');
    const { id, method } = message;
    if (typeof method !== 'string' || id === undefined) return undefined;
    const result = await this.result(method, asObject(message['params']), message, send);
    this.transcript.answered(id);
    return 'code' in result
      ? refusal(id, Number(result['code']), String(result['message']))
      : { jsonrpc: '2.0', id, result };
  }

  private async result(method: string, params: Json, message: Json, send: Send): Promise<Json> {
    const { transcript } = this;
    if (method === 'initialize') {
      const offered = revisionOf(params['protocolVersion']);
      transcript.revision = offered?.era === 'legacy' ? offered : NEWEST_LEGACY;
      transcript.initialize = message;
      return { protocolVersion: transcript.revision.date, capabilities: { tools: {} }, serverInfo: INFO };
    }
    const meta = asObject(params['_meta']);
    const named = revisionOf(meta[`${PREFIX}/protocolVersion`]);
    const modern = named?.era === 'modern';
    if (modern) transcript.revision = named;
    const common = modern ? { resultType: 'complete', ttlMs: 0, cacheScope: 'private' } : {};
    switch (method) {
      case 'server/discover':
        transcript.revision ??= MODERN[0];
        return {
          ...common,
          supportedVersions: MODERN.map(({ date }) => date),
          capabilities: { tools: {} },
          serverInfo: INFO,
        };
      case 'ping':
        return {};
      case 'tools/list':
        if (params['cursor'] === CURSOR) return { ...common, tools: [SECOND] };
        transcript.cursors.add(CURSOR);
        return { ...common, tools: [FIRST], nextCursor: CURSOR };
      case 'tools/call':
        return modern ? this.modernCall(params, meta) : this.call(params, meta, send);
      default:
        return { code: -32601, message: `Method not found: ${method.slice(0, 100)}` };
    }
  }

  private async call(params: Json, meta: Json, send: Send): Promise<Json> {
    this.ask(send);
    const { progressToken } = meta;
    if (progressToken !== undefined)
      send({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken, progress: 1 } });
    await this.settled();
    return this.said(params);
  }

  /** A call whose first answer asks for input, if the client takes such questions. */
  private modernCall(params: Json, meta: Json): Json {
    const capabilities = asObject(meta[`${PREFIX}/clientCapabilities`]);
    if (params['requestState'] !== undefined || !isObject(capabilities['elicitation']))
      return { resultType: 'complete', ...this.said(params) };
    const requestedSchema = { type: 'object', properties: { answer: { type: 'string' } } };
    const question = {
      method: 'elicitation/create',
      params: { mode: 'form', message: 'Say something', requestedSchema },
    };
    return { resultType: 'input_required', inputRequests: { answer: question }, requestState: STATE };
  }

  private said(params: Json): Json {
    const name = isText(params['name']) ? params['name'].slice(0, 100) : 'nothing';
    return { content: [{ type: 'text', text: `Hello from ${name}` }] };
  }

  /** Resolves when every question is answered, or after a time. */
  private async settled(): Promise<void> {
    const end = performance.now() + ANSWER_TIME;
    const waiting = (): boolean => [...this.transcript.questions.values()].some(({ answers }) => answers.length === 0);
    while (waiting() && performance.now() < end) await sleep(10);
  }
}

export const REQUEST_STATE = STATE;

const refusal = (id: unknown, code: number, message: string): Json => ({
  jsonrpc: '2.0',
  id,
  error: { code, message },
});
