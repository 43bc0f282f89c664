// Writes docs/assess.md from the requirements and profiles. Run after `npm run build`.
import { writeFileSync } from 'node:fs';
import { renderAssessReference } from '../dist/assess/reference.js';

writeFileSync(new URL('../docs/assess.md', import.meta.url), renderAssessReference());
