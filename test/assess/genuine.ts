/** Servers on the official SDKs, and the violations that they really have: each was checked by hand once. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { assess, type Target } from '../../src/assess/assess.js';
import { profileOf } from '../../src/assess/profiles.js';
import { failedChecks, type Report } from '../../src/assess/report/model.js';
import { eventually } from '../support/eventually.js';
import { listening } from '../support/fixture-address.js';
import { freePort } from '../support/services.js';

/** The reason for each reported violation. */
export const REASONS: Readonly<Record<string, string>> = {
  'BASE-07': 'the SDK reads no batches from stdin, also in the one revision that requires them',
  'BASE-09': 'the SDK accepts batches over HTTP in every revision',
  'BASE-14': 'the SDK refuses a foreign Origin with the code -32000',
  'HL-11': 'the event store of the server replays the events of every stream',
  'HL-14a': 'the server answers 400 to an unknown session',
  'HL-14b': 'the server answers 400 to a session that ended',
  'HM-02a': 'the SDK checks Origin only if the check is switched on',
  'HM-02b': 'the SDK checks Origin only if the check is switched on',
  'HM-02c': 'the SDK checks Origin only if the check is switched on',
  'HM-03': 'the SDK checks Host only if the check is switched on',
  'HM-03b': 'the SDK checks Host only if the check is switched on',
  'CMP-03': 'the server completes every reference',
  'LOG-02a': 'the SDK turns a failed validation of parameters into -32603',
  'PAG-02': 'the server has one page and ignores cursors',
  'PRM-02b': 'the server greets "undefined" without the required argument',
  'RES-04': 'the SDK sends -32602 for a missing resource in every revision',
  'TOOL-11': 'the SDK answers a call of an unknown tool with a result that has isError',
  'TOOL-21': 'the server sends blocks that the negotiated revision does not have',
  'VER-01a': 'over stdio the SDK compares the version of the first request only',
};

export interface Genuine {
  readonly name: string;
  readonly command: readonly string[];
  /** The address over HTTP, printed or by the variable PORT; undefined for stdio. */
  readonly address?: 'printed' | ((port: number) => string);
  readonly surfaces: readonly string[];
  readonly failures: readonly string[];
}

const [A, B, C, D, E] = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'] as const;
const ERAS = fileURLToPath(new URL('../fixtures/eras/server.mjs', import.meta.url));
const EVERYTHING = fileURLToPath(new URL('../fixtures/everything/server.mjs', import.meta.url));

const over = (transport: string, ...dates: string[]): string[] => dates.map((date) => `${date} over ${transport}`);

const eras = (date: string, transport: string, surfaces: readonly string[], failures: string): Genuine => ({
  name: `SDK of ${date}, ${transport}`,
  command: [process.execPath, ERAS, date, transport],
  ...(transport !== 'stdio' && { address: 'printed' as const }),
  surfaces,
  failures: failures.split(' '),
});

const everything = (variant: string, surfaces: readonly string[], failures: string): Genuine => ({
  name: `SDK with every feature, ${variant}`,
  command: [process.execPath, EVERYTHING, variant],
  address: 'printed',
  surfaces,
  failures: failures.split(' '),
});

const HANDLERS = 'PAG-02 PRM-02b CMP-03';
const OPEN_HTTP = `HM-03 ${HANDLERS}`;

/** Servers over HTTP and HTTP+SSE. */
export const WEB_SERVERS: readonly Genuine[] = [
  eras(A, 'sse', over('sse', A), 'HM-02c HM-03b PAG-02 PRM-02b LOG-02a'),
  ...['http', 'json'].flatMap((mode) => [
    eras(B, mode, over('http', B), `${OPEN_HTTP} HM-02b LOG-02a`),
    eras(C, mode, over('http', B, C), `${OPEN_HTTP} BASE-09 HM-02b LOG-02a`),
    eras(D, mode, over('http', B, C, D), `${OPEN_HTTP} BASE-09 HM-02a HM-02b LOG-02a`),
  ]),
  eras(E, 'http', over('http', E), `${OPEN_HTTP} HM-02a`),
  everything('dual', over('http', E, B, C, D), 'BASE-09 BASE-14 PAG-02 RES-04 CMP-03 LOG-02a'),
  everything('modern', over('http', E), 'BASE-14 PAG-02 CMP-03'),
];

/** Servers over stdio. Each surface starts several dozen processes. */
export const PROGRAMS: readonly Genuine[] = [
  eras(A, 'stdio', over('stdio', A), 'PAG-02 PRM-02b LOG-02a'),
  eras(B, 'stdio', over('stdio', A, B), `BASE-07 TOOL-21 ${HANDLERS} LOG-02a`),
  eras(C, 'stdio', over('stdio', A, B, C), `BASE-07 TOOL-21 ${HANDLERS} LOG-02a`),
  eras(D, 'stdio', over('stdio', A, B, C, D), `BASE-07 TOOL-21 ${HANDLERS} LOG-02a`),
  eras(E, 'stdio', over('stdio', E), `VER-01a ${HANDLERS}`),
];

/** The reference server of the protocol, over its three transports. */
export function referenceServer(executable: string): readonly Genuine[] {
  const common = 'TOOL-11 TOOL-21 PAG-02 RES-04 LOG-02a';
  const name = (mode: string): string => `@modelcontextprotocol/server-everything, ${mode}`;
  return [
    {
      name: name('HTTP'),
      command: [executable, 'streamableHttp'],
      address: (port) => `http://127.0.0.1:${port}/mcp`,
      surfaces: over('http', B, C, D),
      failures: `BASE-09 HL-11 HL-14a HL-14b HM-02a HM-02b HM-03 ${common}`.split(' '),
    },
    {
      name: name('HTTP+SSE'),
      command: [executable, 'sse'],
      address: (port) => `http://127.0.0.1:${port}/sse`,
      surfaces: over('sse', A),
      failures: `HM-02c HM-03b ${common}`.split(' '),
    },
    {
      name: name('stdio'),
      command: [executable, 'stdio'],
      surfaces: over('stdio', A, B, C, D),
      failures: `BASE-07 ${common}`.split(' '),
    },
  ];
}

const examine = (target: Target): Promise<Report> =>
  assess({
    tool: 'test',
    target,
    profile: profileOf('standard')!,
    active: true,
    // A busy machine must not change the verdicts.
    pace: { interval: 0, answer: 10_000, total: 600_000 },
  });

/** Starts a server, and runs any number of assessments. */
export async function assessGenuine({ command, address }: Genuine, times = 1): Promise<Report[]> {
  const [program = '', ...args] = command;
  const reports: Report[] = [];
  const repeat = async (target: Target): Promise<Report[]> => {
    for (let i = 0; i < times; i++) reports.push(await examine(target));
    return reports;
  };
  if (address === undefined)
    return repeat({ kind: 'command', command: { command: program, args, cwd: process.cwd() } });
  const port = await freePort();
  const child = spawn(program, args, {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { ...process.env, PORT: String(port) },
  });
  try {
    const url = address === 'printed' ? await listening(child) : address(port);
    await eventually(() => reachable(url), Boolean, 60_000);
    return await repeat({ kind: 'url', url: new URL(url) });
  } finally {
    child.kill();
  }
}

const reachable = (url: string): Promise<boolean> =>
  fetch(url, { method: 'OPTIONS' }).then(
    () => true,
    () => false,
  );

/** The ids of the violations, in order. */
export const failuresOf = (report: Report): string[] =>
  report.sections
    .flatMap(failedChecks)
    .map(({ id }) => id)
    .sort();
