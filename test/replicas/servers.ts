/** Equivalent servers as processes, and a gateway in front of them. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { listening } from '../support/fixture-address.js';
import { type GatewayConfig, type GatewayOptions, type RunningGateway, startGateway } from '../support/gateway.js';

const FIXTURE = fileURLToPath(new URL('../fixtures/replicas/server.mjs', import.meta.url));

export type Era = 'modern' | 'legacy';
export const BEHAVIOURS = ['failing', 'slow', 'good'] as const;

export interface ReplicaProcess {
  readonly name: string;
  readonly url: string;
  /** The tags of the calls that it ran. */
  ran(): readonly string[];
  /** Kills the process, so that it can notify nobody. */
  kill(): Promise<void>;
}

async function startReplica(era: Era, name: string, behaviour: string): Promise<ReplicaProcess> {
  const child: ChildProcess = spawn(process.execPath, [FIXTURE, era, name, behaviour], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout!.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  const url = await listening(child);
  return {
    name,
    url,
    ran: () => [...output.matchAll(/^ran (.*)$/gm)].map(([, tag]) => tag!),
    kill: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exit = once(child, 'exit');
      child.kill('SIGKILL');
      await exit;
    },
  };
}

export interface Pool {
  readonly replicas: readonly ReplicaProcess[];
  readonly gateway: RunningGateway;
  readonly config: GatewayConfig;
  close(): Promise<void>;
}

/** One server for each behaviour, named by it, behind a gateway as `pool`. */
export async function startPool(
  era: Era,
  behaviours: readonly string[],
  more: object = {},
  options: GatewayOptions = {},
): Promise<Pool> {
  const replicas = await Promise.all(
    behaviours.map((behaviour, index) => startReplica(era, `${behaviour}-${index + 1}`, behaviour)),
  );
  const config = { servers: { pool: { replicas: replicas.map(({ url }) => url), objective: '100ms' } }, ...more };
  const gateway = await startGateway(config, options);
  return {
    replicas,
    gateway,
    config,
    close: async () => {
      await gateway.close();
      await Promise.all(replicas.map((replica) => replica.kill()));
    },
  };
}
