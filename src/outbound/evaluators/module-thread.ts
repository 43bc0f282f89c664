/** The thread of an evaluator that is a module. A module that blocks or fails does not stop the gateway. */
import { parentPort, workerData } from 'node:worker_threads';
import type { FromModule, ModuleThreadData, ToModule } from './module-messages.js';

type Evaluate = (call: unknown) => unknown;

const decoder = new TextDecoder();
const tell = (message: FromModule): void => parentPort?.postMessage(message);

/** The class of an error, and the first place of its stack. */
function placeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'a value that is not an error';
  const at = /\n\s+at .*?([^\s/\\(]+:\d+:\d+)\)?/.exec(error.stack ?? '')?.[1];
  return at === undefined ? error.name : `${error.name} at ${at}`;
}

async function answer(evaluate: Evaluate, { id, json }: ToModule): Promise<void> {
  try {
    const given = (await evaluate(JSON.parse(decoder.decode(json)))) ?? null;
    const { score, label } =
      typeof given === 'object' && given !== null ? (given as { score?: unknown; label?: unknown }) : { score: given };
    // Any other value might not be transferable to another thread.
    const known = score === null || typeof score === 'number';
    tell({ id, score: known ? score : 'invalid', label: typeof label === 'string' ? label : undefined });
  } catch (error) {
    tell({ id, error: placeOf(error) });
  }
}

try {
  const loaded = (await import((workerData as ModuleThreadData).module)) as { evaluate?: unknown; default?: unknown };
  const evaluate = loaded.evaluate ?? loaded.default;
  if (typeof evaluate === 'function') {
    tell({ ready: true });
    parentPort?.on('message', (message: ToModule) => void answer(evaluate as Evaluate, message));
  } else tell({ unusable: 'the module exports no function "evaluate"' });
} catch (error) {
  tell({ unusable: `the module cannot be loaded: ${placeOf(error)}` });
}
