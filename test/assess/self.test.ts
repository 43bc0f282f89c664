import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { failedChecks, type Report } from '../../src/assess/report/model.js';
import { BIN } from '../support/gateway.js';
import { assessEndpoint, type SelfGateway, selfPage, startSelf } from './self-assessment.js';

let self: SelfGateway;

beforeAll(async () => {
  // The SDK of the agent writes errors that it sends to clients.
  vi.spyOn(console, 'error').mockReturnValue();
  self = await startSelf();
});
afterAll(() => self.close());

test('every endpoint of the gateway has 100, and docs/self-assessment.md says so (run npm run assess:self)', async () => {
  const reports: [string, Report][] = [];
  for (const url of self.urls) {
    const report = await assessEndpoint(url);
    const failures = report.sections.flatMap(failedChecks);
    expect(failures.map(({ id, reason, evidence }) => ({ url: url.pathname, id, reason, evidence }))).toEqual([]);
    expect([url.pathname, report.score, report.complete]).toEqual([url.pathname, 100, true]);
    reports.push([url.pathname, report]);
  }
  const page = readFileSync(new URL('../../docs/self-assessment.md', import.meta.url), 'utf8');
  expect(page).toBe(selfPage(reports));
});

test('parley assess self grades the endpoints of a running gateway', async () => {
  const line = [BIN, 'assess', 'self', '--config', self.gateway.file, '--gate', '100', '--rate', '1000'];
  const { stdout } = await promisify(execFile)(process.execPath, [...line, '--format', 'json'], { maxBuffer: 2 ** 26 });
  const reports = JSON.parse(stdout) as readonly Report[];
  expect(reports.map(({ target, score }) => [target, score])).toEqual(self.urls.map(({ href }) => [href, 100]));
});
