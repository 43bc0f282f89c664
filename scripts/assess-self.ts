// Grades every endpoint of a gateway and writes docs/self-assessment.md. Fails if an endpoint has less than 100.
//   npm run assess:self
import { writeFileSync } from 'node:fs';
import type { Report } from '../src/assess/report/model.js';
import { render } from '../src/assess/report/render.js';
import { assessEndpoint, endpointName, selfPage, startSelf } from '../test/assess/self-assessment.js';

const self = await startSelf();
try {
  const reports: [string, Report][] = [];
  for (const target of self.targets) reports.push([endpointName(target), await assessEndpoint(target)]);
  writeFileSync(new URL('../docs/self-assessment.md', import.meta.url), selfPage(reports));
  for (const [endpoint, report] of reports) {
    process.stdout.write(`${endpoint}: ${report.score}\n`);
    if (report.score === 100) continue;
    process.stdout.write(render(report, 'text'));
    process.exitCode = 1;
  }
} finally {
  await self.close();
}
