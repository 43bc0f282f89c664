import { expect, it } from 'vitest';
import { LastOutputLines, TextLines } from './last-output-lines.js';

const line = (text: string) => ({ at: 0, pid: 1, stream: 'stderr' as const, text });

it('keeps the last lines, limited in number and size', () => {
  const log = new LastOutputLines();
  for (let n = 0; n < 10_000; n++) log.add(line(`line ${n}`));
  expect(log.lines()).toHaveLength(500);
  expect(log.lines().at(-1)?.text).toBe('line 9999');
  for (let n = 0; n < 100; n++) log.add(line('x'.repeat(2000)));
  const kept = log.lines();
  expect(kept.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThanOrEqual(65_536);
  expect(kept.length).toBeGreaterThan(20);
});

function cut(...chunks: Buffer[]): string[] {
  const lines: string[] = [];
  const cutter = new TextLines((text) => lines.push(text));
  for (const chunk of chunks) cutter.push(chunk);
  cutter.end();
  return lines;
}

it('splits at line breaks, independent of chunk boundaries', () => {
  const bytes = Buffer.from('one\ntwö\n\nthree');
  for (let at = 0; at <= bytes.length; at++)
    expect(cut(bytes.subarray(0, at), bytes.subarray(at))).toEqual(['one', 'twö', '', 'three']);
  expect(cut(...Array.from(bytes, (byte) => Buffer.from([byte])))).toEqual(['one', 'twö', '', 'three']);
});

it('cuts an endless line and continues with the next one', () => {
  const long = 'x'.repeat(100_000);
  const short = `${'x'.repeat(2000)}…`;
  expect(cut(Buffer.from(long), Buffer.from(long), Buffer.from('\nnext\n'))).toEqual([short, 'next']);
  expect(cut(Buffer.from(`${long}\nnext`))).toEqual([short, 'next']);
});
