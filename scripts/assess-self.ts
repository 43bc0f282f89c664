// Grades every endpoint of a gateway and writes docs/self-assessment.md. Fails if an endpoint has less than 100.
//   npm run assess:self
import { writeFileSync } from 'node:fs';
import type { Report } from '../src/assess/report/model.js';
import { render } from '../src/assess/report/render.js';
import { assessEndpoint, selfPage, startSelf } from '../test/assess/self-assessment.js';

const self = await startSelf();
try {
  const reports: [string, Report][] = [];
  for (const url of self.urls) reports.push([url.pathname, await assessEndpoint(url)]);
  writeFileSync(new URL('../docs/self-assessment.md', import.meta.url), selfPage(reports));
  for (const [path, report] of reports) {
    process.stdout.write(`${path}: ${report.score}\n`);
    if (report.score === 100) continue;
    process.stdout.write(render(report, 'text'));
    process.exitCode = 1;
  }
} finally {
  await self.close();
}
