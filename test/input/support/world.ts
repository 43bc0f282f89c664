/** A gateway with a healthy server behind it, and a bystander that calls the server while another client misbehaves. */
import { readFileSync } from 'node:fs';
import { expect } from 'vitest';
import { type GatewayConfig, type GatewayOptions, type RunningGateway, startGateway } from '../../support/gateway.js';
import { type EchoServer, startEcho } from './echo.js';
import { modernCall } from './speak.js';
import { sleep } from './wire.js';

export interface World {
  readonly gateway: RunningGateway;
  readonly url: string;
  readonly mcp: string;
  readonly echo: EchoServer;
  /** The check at the end of every case: the process runs, no error escaped, and the bystander is served. */
  wellBehaved(): Promise<void>;
  /** Resident memory of the gateway, in MiB. */
  memory(): number;
  close(): Promise<void>;
}

export interface WorldOptions extends GatewayOptions {
  /** Headers of the bystander, if callers must authenticate. */
  readonly bystander?: Readonly<Record<string, string>>;
}

/** Log lines that report a fault in the gateway itself. */
export const escaped = (log: string): string[] =>
  log.split('\n').filter((line) => /unhandled|uncaught|a request failed in the gateway/i.test(line));

/** Calls continuously with marked payloads. */
class Bystander {
  served = 0;
  readonly troubles: string[] = [];
  private stopped = false;
  private readonly running: Promise<void>;

  constructor(
    private readonly url: string,
    private readonly headers: Readonly<Record<string, string>>,
  ) {
    this.running = this.run();
  }

  private async run(): Promise<void> {
    for (let n = 0; !this.stopped; n++) {
      const text = `bystander ${n}`;
      try {
        const reply = await modernCall(this.url, 'echo__echo', { text }, { id: n, headers: this.headers });
        const { id, result } = reply.json;
        if (reply.status === 200 && id === n && result?.content[0]?.text === text) this.served++;
        else this.troubles.push(`${reply.status} ${reply.body}`);
      } catch (error) {
        if (!this.stopped) this.troubles.push(String(error));
      }
      await sleep(15);
    }
  }

  async stop(): Promise<void> {
    this.stopped = true;
    await this.running;
  }
}

export async function startWorld(config: GatewayConfig = {}, options: WorldOptions = {}): Promise<World> {
  const echo = await startEcho();
  const gateway = await startGateway(
    { ...config, servers: { echo: { url: echo.url, revision: 'modern' }, ...config.servers } },
    options,
  );
  const mcp = `${gateway.url}/mcp`;
  const bystander = new Bystander(mcp, options.bystander ?? {});
  return {
    gateway,
    url: gateway.url,
    mcp,
    echo,
    wellBehaved: async () => {
      expect(gateway.process.exitCode, gateway.log().slice(-2_000)).toBeNull();
      expect(escaped(gateway.log())).toEqual([]);
      const before = bystander.served;
      for (let i = 0; i < 2_000 && bystander.served === before; i++) await sleep(5);
      expect(bystander.troubles.slice(0, 3)).toEqual([]);
      expect(bystander.served).toBeGreaterThan(before);
    },
    memory: () => {
      const kib = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8'))?.[1];
      return Number(kib) / 1024;
    },
    close: async () => {
      await bystander.stop();
      await gateway.close();
      await echo.close();
    },
  };
}
