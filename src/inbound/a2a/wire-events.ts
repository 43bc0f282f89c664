import type { Passed } from '../../core/a2a/agent.js';
import { within } from '../../core/timing.js';
import type { EventWriter } from '../../protocol/a2a/dialect.js';
import { isInterrupted, type StreamResponse } from '../../protocol/a2a/model.js';
import type { VersionBehavior } from '../../protocol/a2a/version-behavior.js';
import type { JsonValue } from '../../protocol/jsonrpc/raw.js';

type Next = IteratorResult<Passed<StreamResponse>, unknown>;

/** How long an event that may be the last is held back, in milliseconds. */
const HOLD = 100;

/**
 * The events of a stream in the client's dialect. Old versions mark the last event, so an event that may be the last is
 * held back briefly, in case the stream ends after it.
 */
export async function* wireEvents(
  iterator: AsyncIterator<Passed<StreamResponse>>,
  first: Next | Promise<Next>,
  writer: EventWriter,
  behavior: VersionBehavior,
  hold = HOLD,
): AsyncGenerator<{ readonly wire: JsonValue; readonly text?: string }> {
  let coming: Next | Promise<Next> | undefined = first;
  for (;;) {
    const next: Next = await (coming ?? iterator.next());
    coming = undefined;
    if (next.done) {
      for (const wire of writer.end()) yield { wire };
      return;
    }
    const { value: event, text } = next.value;
    let last = false;
    if (behavior.marksLast && mayBeLast(event)) {
      const following = iterator.next();
      coming = following;
      last = await endsWithin(following, hold);
    }
    if (behavior.isModel && text !== undefined) yield { wire: event as JsonValue, text };
    else for (const wire of writer.write(event, last)) yield { wire };
  }
}

/**
 * Whether the stream may end after this event, which is the case if the task now waits for its client. The event that
 * finishes a task always ends the stream, and the writer marks it.
 */
const mayBeLast = ({ statusUpdate }: StreamResponse): boolean =>
  statusUpdate !== undefined && isInterrupted(statusUpdate.status.state);

/** Whether the stream ends within `ms` milliseconds. */
async function endsWithin(coming: Promise<Next>, ms: number): Promise<boolean> {
  const ends = coming.then(
    ({ done }) => done === true,
    () => false,
  );
  return (await within(ends, ms)) ?? false;
}
