/** Google's ADK as an A2A client: the cards it accepts, and a message to an agent made of a server's tool. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ADK } from './clients.js';
import { executable } from './packages.js';
import { environment, run } from './run-client.js';
import type { Score } from './score.js';
import { SERVERS } from './servers.js';
import { openWorld } from './start.js';

const DRIVER = fileURLToPath(new URL('drivers/run_adk_a2a.py', import.meta.url));
const REFUSED = /Agent card RPC URL must use https, or http on a loopback host: 127\.0\.0\.1:\d+/;

export async function agents(score: Score): Promise<void> {
  const calculator = SERVERS.filter(({ name }) => name === 'calculator');
  const agents = { desk: { tools: ['calculator__*'] } };
  const folder = await mkdtemp(join(tmpdir(), 'parley-adk-'));
  const ask = async (card: string): Promise<string> => {
    const { stdout } = await run(executable(ADK, 'python'), [DRIVER, card], { cwd: folder, env: environment(folder) });
    return stdout;
  };
  try {
    for (const grpc of [false, true]) {
      const settings = { agents, log: { level: 'warn' }, ...(grpc && { grpc: { listen: '127.0.0.1:0' } }) };
      const world = await openWorld(calculator, settings);
      const cards = `${world.gateway.url}/a2a/desk/.well-known`;
      const title = grpc ? 'with gRPC' : 'without gRPC';
      try {
        await score.test(`Google ADK, A2A ${title}: agent-card.json`, async () => {
          const output = await ask(`${cards}/agent-card.json`);
          if (!grpc) return { problem: answered(output) };
          // Once the ADK accepts this card, the second card and its documentation can be removed.
          return { problem: REFUSED.test(output) ? undefined : `it is not refused: ${output}`, note: 'refused' };
        });
        await score.test(`Google ADK, A2A ${title}: agent-card-http.json`, async () => ({
          problem: answered(await ask(`${cards}/agent-card-http.json`)),
        }));
      } finally {
        await world.close();
      }
    }
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

const answered = (output: string): string | undefined => (output.includes('ANSWER 42') ? undefined : output);
