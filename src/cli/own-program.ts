import { fileURLToPath } from 'node:url';

/** The file that starts this program, for commands that start it again. */
export const BIN = fileURLToPath(new URL('../../bin/parley.js', import.meta.url));
