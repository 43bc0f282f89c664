import { describe, expect, test } from 'vitest';
import type { ClientToolResult } from './gateway-client.js';
import { type RecordedCall, type ReplayedCall, type ReplayOptions, replay } from './replay.js';

const READ = { name: 'read', annotations: { readOnlyHint: true }, inputSchema: {} };
const WRITE = { name: 'write', inputSchema: {} };
const result = (value: unknown): ClientToolResult => ({
  content: [{ type: 'text', text: JSON.stringify(value) }],
  structuredContent: value,
});
const recorded = (more: Partial<RecordedCall> = {}): RecordedCall => ({
  ...{ method: 'tools/call', server: 'files', tool: 'read', requestId: 'r1', outcome: 'ok', ms: 5 },
  ...{ arguments: { path: 'a' }, result: result({ size: 1, at: 'noon' }) },
  ...more,
});

async function run(
  calls: readonly RecordedCall[],
  answer: (name: string, args: object) => ClientToolResult,
  more: Partial<ReplayOptions> = {},
) {
  const sent: string[] = [];
  const client = {
    tools: async () => [READ, WRITE],
    call: async (name: string, args: object) => {
      sent.push(`${name} ${JSON.stringify(args)}`);
      return answer(name, args);
    },
  };
  const replayed: ReplayedCall[] = [];
  for await (const each of replay(calls, { client, active: false, ignore: [], timeout: 1, ...more }))
    replayed.push(each);
  return { sent, replayed };
}

describe('a replay', () => {
  test('sends a call once, and compares its result', async () => {
    const { sent, replayed } = await run(
      [recorded()],
      () => ({ ...result({ at: 'noon', size: 1 }), _meta: {} }) as never,
      {
        ignore: ['/content/*'],
      },
    );
    expect(sent).toEqual(['read {"path":"a"}']);
    expect(replayed).toMatchObject([{ status: 'same', tool: 'read', requestId: 'r1', recordedMs: 5, differences: [] }]);
  });

  test('names each place that differs, except the ignored places', async () => {
    const other = () => result({ size: 2, at: 'one', more: [1] });
    const [call] = (await run([recorded()], other)).replayed;
    expect(call).toMatchObject({ status: 'differs' });
    expect(call!.differences.map(({ at }) => at)).toEqual([
      '/content/0/text',
      '/structuredContent/size',
      '/structuredContent/at',
      '/structuredContent/more',
    ]);
    expect(call!.differences[1]).toEqual({ at: '/structuredContent/size', recorded: '1', replayed: '2' });
    const ignore = ['/content/*', '/structuredContent/*'];
    expect((await run([recorded()], other, { ignore })).replayed[0]).toMatchObject({ status: 'same' });
  });

  test('masks secrets of the new result before it compares', async () => {
    const masked = { content: [{ type: 'text', text: '********' }] };
    const fresh = () => ({ content: [{ type: 'text', text: 'sk-abcdefghijklmnop' }] });
    expect((await run([recorded({ result: masked })], fresh)).replayed[0]).toMatchObject({ status: 'same' });
    const [call] = (await run([recorded({ result: { content: [] } })], fresh)).replayed;
    expect(JSON.stringify(call)).not.toContain('sk-abc');
  });

  test('compares outcomes: a failure is a failure, a tool error is a result', async () => {
    const fail = (): ClientToolResult => {
      throw new Error('no such file');
    };
    const error = recorded({ outcome: 'error', result: undefined });
    expect((await run([error], fail)).replayed).toMatchObject([{ status: 'same', note: 'both calls failed' }]);
    expect((await run([error], () => result(1))).replayed).toMatchObject([{ status: 'differs' }]);
    expect((await run([recorded()], fail)).replayed[0]).toMatchObject({
      status: 'differs',
      differences: [{ at: '', replayed: '"no such file"' }],
    });
    const refused = { ...result({ size: 1, at: 'noon' }), isError: true };
    expect((await run([recorded()], () => refused)).replayed[0]?.differences).toMatchObject([{ at: '/isError' }]);
  });

  test.each([
    [{ method: 'prompts/get' }, 'not a call of a tool'],
    [{ outcome: 'input_required' }, 'ended with input_required'],
    [{ arguments: undefined }, 'record with --arguments'],
    [{ masked: { arguments: 1 } }, 'masked secrets'],
    [{ tool: 'write' }, 'read-only'],
  ])('does not send %j: %s', async (more, note) => {
    const { sent, replayed } = await run([recorded(more)], () => result(1));
    expect(sent).toEqual([]);
    expect(replayed).toMatchObject([{ status: 'skipped', note: expect.stringContaining(note) }]);
  });

  test('sends calls that may change something only with --active, and reports a tool that no longer exists', async () => {
    const { sent, replayed } = await run(
      [recorded({ tool: 'write' }), recorded({ tool: 'gone' })],
      () => result({ size: 1, at: 'noon' }),
      { active: true },
    );
    expect(sent).toEqual(['write {"path":"a"}']);
    expect(replayed).toMatchObject([
      { status: 'same' },
      { status: 'differs', differences: [{ replayed: 'there is no such tool' }] },
    ]);
  });

  test('without a recorded result only the outcome counts, and long or deep values are cut', async () => {
    const { replayed } = await run([recorded({ result: undefined })], () => result(2));
    expect(replayed).toMatchObject([{ status: 'same', note: expect.stringContaining('--results') }]);
    let deep: unknown = 1;
    for (let i = 0; i < 500; i++) deep = [deep];
    const many = Array.from({ length: 500 }, (_, i) => 'x'.repeat(500) + i);
    const [call] = (await run([recorded({ result: result([deep, ...many]) })], () => result([]))).replayed;
    expect(call!.differences.length).toBeLessThanOrEqual(20);
    expect(Math.max(...call!.differences.map((each) => each.recorded.length))).toBeLessThan(200);
  });
});
