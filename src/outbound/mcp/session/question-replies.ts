import type { Release } from '../../../core/count-and-byte-limit.js';
import { type Id, writeError, writeResult } from '../../../protocol/jsonrpc/message.js';
import type { JsonObject } from '../../../protocol/jsonrpc/raw.js';
import { INPUT_FAILURE, type InputRequest, isObject } from '../../../protocol/mcp/model.js';
import type { Revision } from '../../../protocol/mcp/revisions/index.js';
import { encodeInputResponse, refusalOf } from '../../../protocol/mcp/translate/questions.js';

export interface QuestionRepliesOptions {
  /** Calls `release` when the server has the reply, or when the reply is not sent. */
  send(reply: Buffer, release: Release): void;
  /** The revision of the session. */
  revision(): Revision;
}

/** Replies to requests that a legacy server sends to its client: answers, refusals and errors. */
export class QuestionReplies {
  constructor(private readonly options: QuestionRepliesOptions) {}

  result(id: Id, result: JsonObject, release: Release): void {
    this.options.send(Buffer.concat(writeResult(id, [Buffer.from(JSON.stringify(result))])), release);
  }

  error(id: Id, code: number, message: string, release: Release): void {
    this.options.send(writeError(id, { code, message }), release);
  }

  answer(id: Id, question: InputRequest, response: JsonObject, release: Release): void {
    const failure = response[INPUT_FAILURE];
    if (isObject(failure)) this.error(id, Number(failure['code']), String(failure['message']), release);
    else this.result(id, encodeInputResponse(question.method, response, this.options.revision()), release);
  }

  refuse(id: Id, question: InputRequest, reason: string, release: Release): void {
    const refusal = refusalOf(question.method, reason);
    if ('result' in refusal) this.result(id, refusal.result, release);
    else this.error(id, refusal.error.code, refusal.error.message, release);
  }
}
