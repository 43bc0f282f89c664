// Writes docs/configuration.md and docs/parley.schema.json from the schema. Run after `npm run build`.
import { writeFileSync } from 'node:fs';
import { renderJsonSchema } from '../dist/config/json-schema.js';
import { renderReference } from '../dist/config/reference-page.js';

writeFileSync(new URL('../docs/configuration.md', import.meta.url), renderReference());
writeFileSync(new URL('../docs/parley.schema.json', import.meta.url), renderJsonSchema());
