import { randomUUID } from 'node:crypto';
import type { Cancellation } from '../../../core/caller.js';
import { type Id, type RpcResponse, writeNotification, writeRequest } from '../../../protocol/jsonrpc/message.js';
import { type JsonObject, RawObject } from '../../../protocol/jsonrpc/raw.js';
import { INPUT_FAILURE, type InputRequest } from '../../../protocol/mcp/model.js';
import type { Revision } from '../../../protocol/mcp/revisions/index.js';
import { encodeInputRequest } from '../../../protocol/mcp/translate/questions.js';

interface Waiting {
  readonly method: string;
  resolve(answer: JsonObject): void;
}

/** The open questions to one client of the legacy era, sent as requests of the gateway. */
export class Questions {
  private readonly waiting = new Map<Id, Waiting>();
  private asked = 0;

  constructor(
    private readonly revision: Revision,
    /**
     * The prefix of the ids of questions asked by this replica, so that an answer received by another replica can be
     * routed.
     */
    private readonly prefix: string,
    /** How long a user may take to answer, in milliseconds. */
    private readonly patience: number,
  ) {}

  /** Asks the client one question and waits for the answer. A failure becomes an answer too. */
  ask(
    question: InputRequest,
    send: (message: Buffer) => void,
    cancellation?: Cancellation,
    elicitationId: string = randomUUID(),
  ): Promise<JsonObject> {
    const encoded = encodeInputRequest(question, this.revision, elicitationId);
    if ('impossible' in encoded) {
      // The answer is not "cancel", because the client was not asked, and the server must not conclude that it was
      // asked.
      const message = `The client's revision does not support ${encoded.impossible}`;
      return Promise.resolve({ [INPUT_FAILURE]: { code: -32602, message } });
    }
    const id = `${this.prefix}${++this.asked}`;
    return new Promise((resolve) => {
      const give = (code: number, why: string): void => done(noAnswer(question.method, code, why));
      const timer = setTimeout(() => {
        send(writeNotification('notifications/cancelled', { requestId: id, reason: 'timed out' }));
        give(-32603, 'The client did not answer in time');
      }, this.patience);
      const stop = cancellation?.onCancel((reason) => {
        send(writeNotification('notifications/cancelled', { requestId: id, ...(reason && { reason }) }));
        give(-32603, 'The call was cancelled');
      });
      const done = (answer: JsonObject): void => {
        clearTimeout(timer);
        stop?.();
        this.waiting.delete(id);
        resolve(answer);
      };
      this.waiting.set(id, { method: question.method, resolve: done });
      send(writeRequest(id, question.method, encoded.params && RawObject.from(encoded.params)));
    });
  }

  /** False if the answer belongs to no question of this replica. */
  answered({ id, result, error }: RpcResponse): boolean {
    const waiting = id === undefined ? undefined : this.waiting.get(id);
    if (!waiting) return false;
    waiting.resolve(error ? noAnswer(waiting.method, error.code, error.message) : result!.value());
    return true;
  }

  /** No more answers will arrive. */
  close(reason: string): void {
    for (const { resolve, method } of [...this.waiting.values()]) resolve(noAnswer(method, -32603, reason));
  }
}

/**
 * The answer to a question that failed. For an elicitation this is the action `cancel`; for the other methods the
 * failure itself is the answer.
 */
function noAnswer(method: string, code: number, message: string): JsonObject {
  return method === 'elicitation/create' ? { action: 'cancel' } : { [INPUT_FAILURE]: { code, message } };
}
