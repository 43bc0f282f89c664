/**
 * The loader of `ts.mjs` for a worker thread that runs TypeScript: `new Worker(file, { execArgv: ['--import', …] })`.
 */
import { register } from 'node:module';

register('./ts.mjs', import.meta.url);
