import { expect, test } from 'vitest';
import { ProtocolError } from '../../protocol/errors.js';
import type { FinishedSpan, Tracing } from './finished-span.js';
import { traced } from './work-span.js';

function tracingOf(sampled: boolean, exportErrors = true) {
  const spans: FinishedSpan[] = [];
  const tracing: Tracing = { sampled: () => sampled, exportErrors, finished: (span) => spans.push(span) };
  return { tracing, spans };
}
const span = { name: 'mcp.server.health units', attributes: { 'mcp.server.name': 'units' } };
const refuse = () => Promise.reject(new ProtocolError('upstream_unavailable', 'away'));

test('work has a span in a new trace, with the attributes that are known at its end', async () => {
  const { tracing, spans } = tracingOf(true);
  expect(await traced(tracing, { ...span, found: () => ({ 'mcp.health.status': 'up' }) }, async () => 1)).toBe(1);
  expect(spans).toMatchObject([{ name: span.name, kind: 'internal', parent: undefined, error: undefined }]);
  expect(spans[0]!.attributes).toEqual({ 'mcp.server.name': 'units', 'mcp.health.status': 'up' });
});

test('a failure is rethrown, and its span is exported although the trace is not sampled', async () => {
  const [unsampled, quiet] = [tracingOf(false), tracingOf(false, false)];
  await expect(traced(unsampled.tracing, span, refuse)).rejects.toThrow('away');
  await expect(traced(quiet.tracing, span, refuse)).rejects.toThrow('away');
  await traced(unsampled.tracing, span, async () => 1);
  expect([unsampled.spans.map(({ error }) => error), quiet.spans]).toEqual([['upstream_unavailable'], []]);
});

test('there is no span without tracing, and none for work that had nothing to do', async () => {
  const { tracing, spans } = tracingOf(true);
  expect(await traced(undefined, span, async () => 2)).toBe(2);
  await traced(tracing, { ...span, found: () => undefined }, async () => 1);
  expect(spans).toEqual([]);
});
