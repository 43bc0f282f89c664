// Writes docs/configuration.md from the schema. Run after `npm run build`.
import { writeFileSync } from 'node:fs';
import { renderReference } from '../dist/config/reference.js';

writeFileSync(new URL('../docs/configuration.md', import.meta.url), renderReference());
