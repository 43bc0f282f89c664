/**
 * Servers registered over the management API of one of two replicas: rate, lists, health, memory, and the other
 * replica.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sleep } from '../../src/core/timing.js';
import { CountedServer } from '../cluster/support/upstream.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';

const TOKEN = 'bench-k3J9vQ2mX7pL0sT5wZ8yB4nC6dF1gH';
const HEADERS = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };

interface Page {
  readonly items: readonly { readonly status?: string }[];
  readonly next?: string;
}

export async function benchRegistrations(count: number): Promise<void> {
  const data = mkdtempSync(join(tmpdir(), 'parley-bench-registry-'));
  const server = await new CountedServer().start();
  const start = (): Promise<RunningGateway> =>
    startGateway(
      {
        log: { level: 'error' },
        egress: { allowPrivate: true },
        auth: { tokens: [{ name: 'bench', token: TOKEN, admin: true }] },
      },
      { data },
    );
  const [a, b] = [await start(), await start()];
  const rss = ({ pid }: RunningGateway): number =>
    Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_000;
  const ask = async (at: RunningGateway, path: string, method = 'GET', body?: object): Promise<Response> =>
    fetch(at.url + path, { method, headers: HEADERS, ...(body && { body: JSON.stringify(body) }) });
  const timed = async <T>(work: () => Promise<T>): Promise<[milliseconds: number, result: T]> => {
    const began = performance.now();
    const result = await work();
    return [performance.now() - began, result];
  };
  const all = async (at: RunningGateway): Promise<Page['items']> => {
    const items: Page['items'][number][] = [];
    for (let cursor = '', more = true; more; ) {
      const page = (await (await ask(at, `/api/v1/servers?limit=200${cursor}`)).json()) as Page;
      items.push(...page.items);
      more = page.next !== undefined;
      cursor = `&cursor=${page.next}`;
    }
    return items;
  };
  const until = async (reached: () => Promise<boolean>): Promise<number> => {
    const [milliseconds] = await timed(async () => {
      while (!(await reached())) await sleep(20);
    });
    return milliseconds;
  };
  try {
    const before = rss(a);
    const settings = { url: server.url };
    const [registering] = await timed(async () => {
      for (let i = 0; i < count; i += 20)
        await Promise.all(
          Array.from({ length: Math.min(20, count - i) }, async (_, n) => {
            const made = await ask(a, '/api/v1/servers', 'POST', { name: `server${i + n}`, settings });
            if (made.status !== 201) throw new Error(`HTTP ${made.status}: ${await made.text()}`);
            await made.body?.cancel();
          }),
        );
    });
    const onB = await until(async () => (await all(b)).length === count);
    const up = await until(async () => (await all(a)).every(({ status }) => status === 'up'));
    const [listing, listed] = await timed(() => all(a));
    const [health, states] = await timed(
      async () => (await (await ask(a, '/v1/mcp/server/health')).json()) as { status: string }[],
    );
    const [tools, text] = await timed(async () => (await ask(a, '/v1/mcp/tools')).text());
    const extra = await ask(a, '/api/v1/servers', 'POST', { name: 'extra', settings });
    await extra.body?.cancel();
    const one = await until(async () => (await ask(b, '/api/v1/servers/extra')).status === 200);
    const healthy = states.filter(({ status }) => status === 'healthy').length;
    const ms = (value: number): string => `${value.toFixed(0)} ms`;
    console.log(
      `${count} servers registered over the API: ${((count / registering) * 1_000).toFixed(0)} per second, ` +
        `all at the other replica ${ms(onB)} later, all up ${ms(up)} later`,
    );
    console.log(
      `list of ${listed.length}: ${ms(listing)}; health of ${states.length} (${healthy} healthy): ${ms(health)}; ` +
        `${(text.match(/"inputSchema"/g) ?? []).length} tools: ${ms(tools)}; one more at the other replica: ${ms(one)}`,
    );
    console.log(
      `RSS ${before.toFixed(0)} MB without them, ${rss(a).toFixed(0)} MB and ${rss(b).toFixed(0)} MB with them`,
    );
  } finally {
    await b.close();
    await a.close();
    await server.close();
    rmSync(data, { recursive: true, force: true });
  }
}
