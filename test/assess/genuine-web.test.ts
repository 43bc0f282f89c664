/** Genuine servers over HTTP and HTTP+SSE: every reported violation is a real one, and every known one is reported. */
import { describe, expect, it } from 'vitest';
import { assessGenuine, failuresOf, REASONS, WEB_SERVERS } from './genuine.js';

describe('a genuine web server', () => {
  for (const server of WEB_SERVERS) {
    it(`has the known violations only: ${server.name}`, async () => {
      const [report] = await assessGenuine(server);
      expect(report!.sections.flatMap(({ surfaces }) => surfaces)).toEqual(server.surfaces);
      expect(report!.complete).toBe(true);
      expect(failuresOf(report!)).toEqual([...server.failures].sort());
      expect(server.failures.filter((id) => REASONS[id] === undefined)).toEqual([]);
    });
  }

  it('gets byte-identical reports apart from the times', async () => {
    for (const name of ['sse', '2025-11-25, http', '2026-07-28']) {
      const server = WEB_SERVERS.find((each) => each.name.includes(name))!;
      const [first, second] = await assessGenuine(server, 2);
      const withoutTimes = ({ times: _, ...rest }: typeof first & object): string => JSON.stringify(rest);
      expect(withoutTimes(second!), name).toBe(withoutTimes(first!));
      expect(second!.score).toBe(first!.score);
    }
  });
});
