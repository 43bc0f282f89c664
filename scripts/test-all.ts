/**
 * `npm run test:all`: runs all tests that `npm test` leaves out, and `npm test` with every supported version of Node.
 * Prints one line at the end of each part; the output of each part goes to its own file. Takes hours on two cores.
 *
 *   npm run test:all [-- --only faults --only eras] [--list]
 *
 * `test:eras` and `test:a2a` regenerate the published matrices.
 */
import { spawn } from 'node:child_process';
import { createWriteStream, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** The parts of the run, each with its npm command. */
const PARTS: Readonly<Record<string, readonly string[]>> = {
  'node-20': ['run', 'test:node', '--', '20'],
  'node-22': ['run', 'test:node', '--', '22'],
  'node-24': ['run', 'test:node', '--', '24'],
  faults: ['run', 'test:faults'],
  assess: ['run', 'test:assess'],
  conformance: ['run', 'test:conformance'],
  eras: ['run', 'test:eras'],
  a2a: ['run', 'test:a2a'],
  soak: ['run', 'test:soak'],
  fuzz: ['run', 'test:fuzz'],
  'third-party': ['run', 'test:third-party'],
  package: ['run', 'test:package'],
  newcomer: ['run', 'test:newcomer'],
};

const { values } = parseArgs({
  options: { only: { type: 'string', multiple: true }, list: { type: 'boolean', default: false } },
});
const unknown = values.only?.filter((name) => !(name in PARTS)) ?? [];
if (unknown.length > 0) {
  console.error(`Unknown part: ${unknown.join(', ')}. Parts: ${Object.keys(PARTS).join(', ')}`);
  process.exit(2);
}
const chosen = Object.entries(PARTS).filter(([name]) => values.only?.includes(name) ?? true);
if (values.list) {
  for (const [name, args] of chosen) console.log(`${name.padEnd(12)} npm ${args.join(' ')}`);
  process.exit(0);
}

const folder = mkdtempSync(join(tmpdir(), 'parley-test-all-'));
console.log(`The output of each part is in ${folder}`);

/** The line with the number of passed and failed tests at the end of each part. */
const COUNT = /(\d+) passed, (\d+) failed/g;

async function run(name: string, args: readonly string[]): Promise<boolean> {
  const file = join(folder, `${name}.log`);
  const began = performance.now();
  const log = createWriteStream(file);
  const child = spawn('npm', args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] });
  let tail = '';
  for (const output of [child.stdout, child.stderr]) {
    output.on('data', (chunk: Buffer) => {
      log.write(chunk);
      tail = (tail + chunk.toString('utf8')).slice(-4_096);
    });
  }
  const code = await new Promise<number>((resolve) => {
    child.once('error', () => resolve(1));
    child.once('close', (status) => resolve(status ?? 1));
  });
  log.end();
  const minutes = ((performance.now() - began) / 60_000).toFixed(1);
  const [counted = 'no test count'] = [...tail.matchAll(COUNT)].at(-1) ?? [];
  console.log(
    `${code === 0 ? 'ok    ' : 'FAILED'} ${name.padEnd(12)} ${counted}, ${minutes} min${code === 0 ? '' : `: see ${file}`}`,
  );
  return code === 0;
}

let failed = 0;
for (const [name, args] of chosen) if (!(await run(name, args))) failed++;
console.log(`${chosen.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
