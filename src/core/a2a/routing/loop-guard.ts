import { HOPS, type SendMessageRequest } from '../../../protocol/a2a/model.js';
import { ProtocolError } from '../../../protocol/errors.js';

/**
 * G-6: the gateways a message came through are listed in its request's metadata. A gateway that finds itself there, on its
 * way to the same agent, is part of a circle; one that finds too many others is at least far from where it began.
 */
export class LoopGuard {
  /** `instance` names this gateway, all its replicas alike, and no other. */
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
      refuse(`The message has been here before, on its way to the agent "${agent}"`, hops.length);
    if (hops.length >= this.maxHops) refuse(`The message came through ${hops.length} gateways`, hops.length);
    return { ...metadata, [HOPS]: [...hops, here] };
  }
}

function refuse(message: string, hops: number): never {
  throw new ProtocolError('loop_detected', message, { outcome: 'not_executed', data: { hops } });
}
