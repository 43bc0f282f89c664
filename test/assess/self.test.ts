import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { nameOf } from '../../src/assess/assess.js';
import { failedChecks, type Report } from '../../src/assess/report/model.js';
import { BIN } from '../support/gateway.js';
import { assessEndpoint, endpointName, LONGEST, type SelfGateway, selfPage, startSelf } from './self-assessment.js';

let self: SelfGateway;

beforeAll(async () => {
  // The SDK of the agent writes errors that it sends to clients.
  vi.spyOn(console, 'error').mockReturnValue();
  self = await startSelf();
});
afterAll(() => self.close());

test(
  'every endpoint of the gateway has 100, and docs/self-assessment.md says so (run npm run assess:self)',
  async () => {
    const reports: [string, Report][] = [];
    for (const target of self.targets) {
      const endpoint = endpointName(target);
      const report = await assessEndpoint(target);
      const failures = report.sections.flatMap(failedChecks);
      expect(failures.map(({ id, reason, evidence }) => ({ endpoint, id, reason, evidence }))).toEqual([]);
      expect([endpoint, report.score, report.complete]).toEqual([endpoint, 100, true]);
      reports.push([endpoint, report]);
    }
    const page = readFileSync(new URL('../../docs/self-assessment.md', import.meta.url), 'utf8');
    expect(page).toBe(selfPage(reports));
  },
  LONGEST,
);

test(
  'parley assess self grades the endpoints of a running gateway',
  async () => {
    // This profile needs few probes.
    const profile = ['--profile', 'performance', '--time', '900'];
    const line = [BIN, 'assess', 'self', '--config', self.gateway.file, '--gate', '100', '--rate', '1000', ...profile];
    const { stdout } = await promisify(execFile)(process.execPath, [...line, '--format', 'json'], {
      maxBuffer: 2 ** 26,
    });
    const reports = JSON.parse(stdout) as readonly Report[];
    expect(reports.map(({ target, score }) => [target, score])).toEqual(
      self.targets.map((target) => [nameOf(target), 100]),
    );
  },
  LONGEST,
);
