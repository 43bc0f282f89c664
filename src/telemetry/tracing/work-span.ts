import { ProtocolError } from '../../protocol/errors.js';
import { newSpanId, newTraceId, type Tracing } from './finished-span.js';

type Attributes = Readonly<Record<string, string | number | boolean>>;

/** The content of a span for work that is not a call. */
export interface WorkSpan {
  readonly name: string;
  readonly attributes: Attributes;
  /**
   * The attributes that are known only at the end of the work. Undefined if there was nothing to do; then no span is
   * made.
   */
  readonly found?: () => Attributes | undefined;
}

/** Runs work of the gateway that is not a call of a client, with a span that begins a new trace. */
export async function traced<T>(
  tracing: Tracing | undefined,
  { name, attributes, found = () => ({}) }: WorkSpan,
  work: () => Promise<T>,
): Promise<T> {
  if (!tracing) return work();
  const [traceId, began] = [newTraceId(), performance.now()];
  const finish = (error: string | undefined): void => {
    if (!tracing.sampled(traceId, undefined) && !(error !== undefined && tracing.exportErrors)) return;
    const more = found();
    if (more === undefined) return;
    tracing.finished({
      ...{ name, kind: 'internal', traceId, spanId: newSpanId(), state: undefined, parent: undefined },
      ...{ remoteParent: false, links: [], began, ended: performance.now(), error },
      attributes: { ...attributes, ...more },
    });
  };
  try {
    const result = await work();
    finish(undefined);
    return result;
  } catch (error) {
    finish(error instanceof ProtocolError ? error.reason : 'internal');
    throw error;
  }
}
