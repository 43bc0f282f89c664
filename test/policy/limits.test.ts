/** Limits on rates over both protocols, overload, and fairness between callers. */
import { afterEach, describe, expect, test } from 'vitest';
import { Overload } from '../../src/app/overload.js';
import { sleep } from '../../src/core/timing.js';
import { SILENT } from '../../src/telemetry/log.js';
import { ADA, type Answer, answerOf, BOB, bearer, modern, type PolicyWorld, startPolicyWorld } from './world.js';

let world: PolicyWorld | undefined;
afterEach(async () => {
  await world?.close();
  world = undefined;
});

const call = (token: string, name = 'open__add'): Promise<Answer> =>
  modern(world!.gateway.url, 'tools/call', { name, arguments: {} }, { token });
const times = async (count: number, ask: () => Promise<Answer>): Promise<Answer[]> => {
  const answers: Answer[] = [];
  for (let i = 0; i < count; i++) answers.push(await ask());
  return answers;
};
const statuses = (answers: readonly Answer[]): number[] => answers.map(({ status }) => status);

describe('S23: a rate', () => {
  test('S1-81, S2-32, S3-17: beyond its limit gives 429 with Retry-After, for this caller only', async () => {
    world = await startPolicyWorld({ limits: { rates: [{ per: ['caller'], requests: 3, interval: '1h' }] } });
    const answers = await times(5, () => call(ADA));
    expect(statuses(answers)).toEqual([200, 200, 200, 429, 429]);
    const { text, headers } = answers[4]!;
    expect(JSON.parse(text)).toMatchObject({
      error: { code: -32603, data: { reason: 'rate_limited', outcome: 'not_executed', limit: 3, per: ['caller'] } },
    });
    const [, seconds] = /retry-after: (\d+)/.exec(headers.join('\n'))!;
    expect(Number(seconds)).toBeGreaterThan(0);
    expect(Number(seconds)).toBeLessThanOrEqual(3_600);
    expect(statuses(await times(3, () => call(BOB)))).toEqual([200, 200, 200]);
    const a2a = await fetch(`${world.gateway.url}/a2a/openagent`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...bearer(ADA) },
      body: JSON.stringify({
        ...{ jsonrpc: '2.0', id: 7, method: 'SendMessage' },
        params: { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hi' }] } },
      }),
    });
    expect([a2a.status, a2a.headers.get('retry-after')]).toEqual([429, expect.stringMatching(/^\d+$/)]);
    expect(await a2a.json()).toMatchObject({ id: 7, error: { code: -32603 } });
    const rest = await fetch(`${world.gateway.url}/a2a/openagent/tasks`, {
      headers: { 'a2a-version': '1.0', ...bearer(ADA) },
    });
    expect(rest.status).toBe(429);
    expect((await fetch(`${world.gateway.url}/health`)).status).toBe(200);
  });

  test('per tool, per server and by condition counts only its own calls', async () => {
    world = await startPolicyWorld({
      policy: { rules: [{ name: 'all', when: 'true', effect: 'allow' }] },
      limits: {
        rates: [
          { per: ['caller', 'tool'], requests: 2, interval: '1h', when: 'server == "open"' },
          { per: ['server'], requests: 4, interval: '1h', when: 'kind == "tool"' },
        ],
      },
    });
    expect(statuses(await times(3, () => call(ADA)))).toEqual([200, 200, 429]);
    expect(statuses(await times(3, () => call(ADA, 'open__cloaked')))).toEqual([200, 200, 429]);
    // The calls that were admitted have used up the count of the server.
    expect(statuses(await times(1, () => call(BOB)))).toEqual([429]);
    expect(statuses(await times(5, () => call(ADA, 'secret__add')))).toEqual([200, 200, 200, 200, 429]);
  });

  test('of a hidden tool reveals nothing about the tool', async () => {
    world = await startPolicyWorld({ limits: { rates: [{ per: ['tool'], requests: 1, interval: '1h' }] } });
    expect(statuses(await times(2, () => call(ADA, 'secret__add')))).toEqual([200, 429]);
    const [hidden, absent] = [await call(BOB, 'secret__add'), await call(BOB, 'absent__add')];
    expect(hidden.text.replaceAll('secret', 'absent')).toBe(absent.text);
  });
});

describe('S23: overload', () => {
  const block = (milliseconds: number): void => {
    for (const end = performance.now() + milliseconds; performance.now() < end; );
  };

  test('of the event loop refuses calls with 503 and Retry-After; health and administration are served', async () => {
    world = await startPolicyWorld({ limits: { overload: { eventLoopDelay: '300ms' } } });
    const { url } = world.gateway;
    const get = async (path: string): Promise<Answer> =>
      answerOf(await fetch(`${url}${path}`, { headers: bearer(ADA) }));
    expect((await call(ADA)).status).toBe(200);
    let answers: Answer[] = [];
    let busy = true;
    const blocking = (async () => {
      while (busy) {
        block(450);
        await sleep(1);
      }
    })();
    for (let i = 0; i < 20 && !answers.some(({ status }) => status === 503); i++)
      answers = await Promise.all([call(ADA), get('/health'), get('/_health/live'), get('/servers/open/logs')]);
    busy = false;
    await blocking;
    const [refused, ...served] = answers;
    expect(refused!.status).toBe(503);
    expect(refused!.headers.join('\n')).toMatch(/retry-after: \d+/);
    expect(JSON.parse(refused!.text)).toMatchObject({
      error: { data: { reason: 'overloaded', outcome: 'not_executed' } },
    });
    expect(statuses(served)).not.toContain(503);
    for (let i = 0; i < 50 && (await call(ADA)).status !== 200; i++) await sleep(50);
    expect((await call(ADA)).status).toBe(200);
  });

  test('of the heap refuses calls until memory is free again', async () => {
    let used = 99;
    const overload = new Overload({ eventLoopDelay: 60_000, heapPercent: 95, log: SILENT, heap: () => used });
    overload.start();
    for (let i = 0; i < 100 && !overload.refusal(); i++) await sleep(20);
    expect(overload.refusal()).toMatchObject({ reason: 'overloaded' });
    used = 40;
    for (let i = 0; i < 100 && overload.refusal(); i++) await sleep(20);
    expect(overload.refusal()).toBeUndefined();
    overload.stop();
  });
});
