import { HOPS, type SendMessageRequest } from '../../../protocol/a2a/model.js';
import { ProtocolError } from '../../../protocol/errors.js';

/**
 * G-6: the metadata of a request lists the gateways that the message passed. If the list contains this gateway with the
 * same agent, the message is in a loop. A list that is too long is refused too.
 */
export class LoopGuard {
  /** `instance` is the unique name of this gateway. All replicas have the same name. */
  constructor(
    private readonly instance: string,
    private readonly maxHops: number,
  ) {}

  /** The metadata for the next hop. Throws `loop_detected`. */
  next(request: SendMessageRequest, agent: string): NonNullable<SendMessageRequest['metadata']> {
    const { metadata = {} } = request;
    const listed = metadata[HOPS];
    const hops = Array.isArray(listed) ? listed : [];
    const here = `${this.instance}/${agent}`;
    if (hops.includes(here))
      refuse(`Loop detected: the message has passed this gateway before, for the agent "${agent}"`, hops.length);
    if (hops.length >= this.maxHops)
      refuse(`The message has passed ${hops.length} gateways, the most that are allowed`, hops.length);
    return { ...metadata, [HOPS]: [...hops, here] };
  }
}

function refuse(message: string, hops: number): never {
  throw new ProtocolError('loop_detected', message, { outcome: 'not_executed', data: { hops } });
}
