import { ProtocolError } from '../../../protocol/errors.js';
import { type RpcMessage, writeError } from '../../../protocol/jsonrpc/message.js';
import type { JsonObject } from '../../../protocol/jsonrpc/raw.js';
import { META } from '../../../protocol/mcp/model.js';
import type { Refused, ReplyChannel } from '../reply-channel.js';

/** The messages of one POST: they run concurrently, and their responses are sent together (HL-03). */
export class Batch {
  private readonly answers: (readonly Buffer[])[] = [];

  constructor(
    private readonly items: readonly (RpcMessage | ProtocolError)[],
    private readonly channel: ReplyChannel,
    private readonly refused: Refused | undefined,
  ) {}

  async run(handle: (message: RpcMessage, channel: ReplyChannel) => Promise<void>): Promise<void> {
    await Promise.all(this.items.map((item) => this.one(item, handle)));
    if (this.answers.length === 0) {
      this.channel.finish([], 202, []);
      return;
    }
    const body: Buffer[] = [Buffer.from('[')];
    for (const [index, answer] of this.answers.entries()) {
      if (index > 0) body.push(COMMA);
      body.push(...answer);
    }
    body.push(Buffer.from(']'));
    this.channel.finish(body, 200, []);
  }

  private async one(
    item: RpcMessage | ProtocolError,
    handle: (message: RpcMessage, channel: ReplyChannel) => Promise<void>,
  ): Promise<void> {
    if (item instanceof ProtocolError) {
      this.refuse(item);
      return;
    }
    const problem = notInBatch(item);
    if (problem) {
      this.refuse(problem);
      return;
    }
    await handle(item, {
      requestId: this.channel.requestId,
      address: this.channel.address,
      send: (message) => this.channel.send(message),
      finish: (message) => {
        if (message.length > 0) this.answers.push(message);
      },
    });
  }

  private refuse(error: ProtocolError): void {
    this.refused?.(error);
    this.answers.push([
      writeError(error.detail.id ?? null, {
        code: error.row.legacy,
        message: error.message,
        data: error.data as JsonObject,
      }),
    ]);
  }
}

const COMMA = Buffer.from(',');

/** BASE-08: messages that must not be part of a batch. */
function notInBatch(item: RpcMessage): ProtocolError | undefined {
  if (item.kind === 'response') return undefined;
  const about = item.kind === 'request' ? { id: item.id } : {};
  if (item.method === 'initialize')
    return new ProtocolError('invalid_request', 'initialize must not be part of a batch', about);
  const meta = item.params.object('_meta');
  if (meta?.has(META.protocolVersion))
    return new ProtocolError('invalid_request', 'A request with modern metadata must not be part of a batch', about);
  return undefined;
}
