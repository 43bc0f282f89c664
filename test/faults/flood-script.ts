/** The tools of `flood-program.ts` over HTTP, in both eras. */
import type { ServerResponse } from 'node:http';
import { answer, type Called, event, json, type Script, stream } from '../input/support/rogue.js';

const drained = (res: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      res.off('drain', done).off('close', done);
      resolve();
    };
    res.on('drain', done).on('close', done);
  });

/** Writes as fast as the peer reads, until the peer closes the connection. */
async function flood({ res, id, era, args, progressToken }: Called, count: number): Promise<void> {
  const message = 'x'.repeat(Number(args['size'] ?? 20));
  stream(res);
  for (let progress = 0; progress < count && !res.destroyed; ) {
    let text = '';
    for (const end = Math.min(count, progress + 100); progress < end; ) {
      const params = { progressToken, progress: ++progress, message };
      text += event({ jsonrpc: '2.0', method: 'notifications/progress', params });
    }
    if (!res.write(text)) await drained(res);
    // Lets readers in the same process run.
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (!res.destroyed) res.end(event(answer(id, 'all of it', era)));
}

export const FLOOD_SCRIPT: Script = {
  fine: ({ res, id, era, args }) => json(res, 200, answer(id, String(args['text'] ?? 'fine'), era)),
  endless: (called) => void flood(called, Number.POSITIVE_INFINITY),
  many: (called) => void flood(called, Number(called.args['count'])),
};
