/** `parley assess` as a program: terminal, files, gate and comparison; and its page in a real browser. */
import { type ChildProcess, exec, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { VERSION } from '../../src/app/product-info.js';
import type { Report } from '../../src/assess/report/model.js';
import { render } from '../../src/assess/report/render.js';
import { McpFixture } from '../fixtures/assess/mcp-server.js';
import { serveWebSocket } from '../fixtures/assess/web-socket.js';
import { startBrowser } from '../support/browser.js';
import { selfSigned } from '../support/certificate.js';
import { listening } from '../support/fixture-address.js';
import { BIN } from '../support/gateway.js';
import { Terminal } from '../support/terminal.js';

const SERVER = fileURLToPath(new URL('../fixtures/eras/server.mjs', import.meta.url));
const REVISION = '2025-06-18';
const KEY = 'key-of-the-gateway-0123456789';

let server: ChildProcess;
let url: string;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'parley-assess-'));
  server = spawn(process.execPath, [SERVER, REVISION, 'json'], { stdio: ['pipe', 'pipe', 'ignore'] });
  url = await listening(server);
});
afterAll(() => {
  server.kill();
  rmSync(folder, { recursive: true, force: true });
});

const file = (name: string): string => join(folder, name);
const read = (name: string): string => readFileSync(file(name), 'utf8');

interface Workflow {
  readonly jobs: {
    readonly assess: {
      readonly steps: readonly {
        readonly name?: string;
        readonly run?: string;
        readonly with?: Readonly<Record<string, unknown>>;
      }[];
    };
  };
}

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const assessed = (...args: string[]): Promise<Ended> =>
  new Promise((resolve) => {
    const line = [BIN, 'assess', ...args];
    execFile(process.execPath, line, { cwd: folder, maxBuffer: 2 ** 26 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });

/** Runs the command with `--active`, for one revision; resolves with the exit code and the output. */
const run = (...args: string[]): Promise<Ended> =>
  assessed(url, '--active', '--revision', REVISION, '--rate', '1000', ...args);

describe('parley assess', () => {
  it('writes each format, the badge and the changes since an earlier report', async () => {
    const first = await run('--output', 'a.json,a.html,a.md,a.xml,a.svg,a.txt');
    expect(first.code).toBe(0);
    const report = JSON.parse(read('a.json')) as Report;
    expect(first.stdout).toBe(read('a.txt'));
    expect(first.stdout).toContain(`${report.score} of 100, grade ${report.grade}`);
    expect(first.stdout).toMatch(/P0 BASE-09 MUST: .*\n.*\n {2}Fix: .*\n {2}See https:.*\n {4}> POST/);
    expect(read('a.md')).toContain('| P0 | [BASE-09](https://modelcontextprotocol.io/');
    expect(read('a.md')).toMatch(
      /\n\*\*BASE-09\*\*, request and response:\n\n<pre>POST [^<]*parley-a[^<]*<\/pre>\n<pre>HTTP 200[^<]*parley-a/,
    );
    expect(read('a.xml')).toMatch(/<testsuite name="MCP" tests="\d+" failures="\d+" skipped="\d+">/);
    expect(read('a.svg')).toContain(`${report.score} ${report.grade}`);

    const checks = report.sections[0]!.checks.map((check) => ({ ...check }));
    Object.assign(checks.find(({ id }) => id === 'BASE-09')!, { outcome: 'pass' });
    const earlier = { ...report, score: 95, sections: [{ ...report.sections[0]!, checks }] };
    writeFileSync(file('earlier.json'), JSON.stringify(earlier));
    const second = await run('--compare', 'earlier.json', '--output', 'b.json');
    const difference = Math.round((report.score - 95) * 10) / 10;
    expect(second.stdout).toContain(
      `Since the last report: 95 -> ${report.score} (${difference})\n  BASE-09: pass -> fail\nHistory: 95 -> ${report.score}\n`,
    );
    const { changes, times: _, ...rest } = JSON.parse(read('b.json')) as Report;
    expect(changes).toEqual({
      scoreBefore: 95,
      history: [{ started: report.times.started, score: 95 }],
      checks: [{ id: 'BASE-09', before: 'pass', after: 'fail' }],
    });
    const { changes: none, times: __, ...same } = report;
    expect(none).toBeNull();
    expect(rest).toEqual(same);
  });

  it('S1-84: names the specification and the build', async () => {
    const { stdout } = await run('--profile', 'openai');
    expect(stdout).toContain(`MCP ${REVISION} (https://modelcontextprotocol.io/specification/${REVISION})`);
    // The build writes the commit, if the project is a repository.
    const commit = new URL('../../dist/commit.txt', import.meta.url);
    const built = existsSync(commit) ? `, commit ${readFileSync(commit, 'utf8').trim()}` : '';
    if (built !== '') expect(built).toMatch(/^, commit [0-9a-f]{40,64}\+?$/);
    expect(stdout).toContain(`Made by parley ${VERSION}${built}, `);
  });

  it('assesses a server over WebSocket', async () => {
    const served = await serveWebSocket(new McpFixture('D', undefined, { token: KEY }));
    const flags = ['--auth', `Bearer ${KEY}`, '--revision', '2025-11-25', '--rate', '1000', '--format', 'json'];
    const { code, stdout } = await assessed(served.url.href, ...flags, '--gate', '100');
    served.close();
    const report = JSON.parse(stdout) as Report;
    expect([code, report.target, report.score]).toEqual([0, served.url.href, 100]);
    expect(report.sections.map(({ surfaces }) => surfaces)).toEqual([['2025-11-25 over ws']]);
    expect(stdout).not.toContain(KEY);
  });

  it('ends with exit code 1 if the score is below the gate', async () => {
    expect((await run('--gate', '50', '--profile', 'openai')).code).toBe(0);
    expect((await run('--gate', '100')).code).toBe(1);
    expect((await run('--gate', 'high')).code).toBe(2);
  });

  it('refuses a revision that does not exist, instead of finding no server', async () => {
    const { code, stderr } = await assessed(url, '--revision', '2025-06-18,2025-13-01');
    expect(code).toBe(2);
    expect(stderr).toContain('--revision: 2025-13-01 is not one of 2024-11-05, 2025-03-26, ');
  });

  it('reaches a server of the configuration with its API key and its certificates', async () => {
    const keys = new Set<unknown>();
    const certificate = selfSigned('127.0.0.1');
    const locked = createServer(certificate, (request, response) => {
      keys.add(request.headers['x-key']);
      response.writeHead(request.headers['x-key'] === KEY ? 404 : 401).end(KEY);
    }).listen(0, '127.0.0.1');
    await once(locked, 'listening');
    const { port } = locked.address() as AddressInfo;
    const auth = { apiKey: KEY, header: 'X-Key' };
    const settings = { url: `https://127.0.0.1:${port}/mcp`, auth, tls: { ca: certificate.cert } };
    writeFileSync(
      file('named.json'),
      JSON.stringify({ servers: { locked: settings }, agents: { helper: { tools: ['*'] } } }),
    );
    const { stdout } = await assessed('locked', '--config', 'named.json', '--format', 'json', '--rate', '1000');
    locked.close();
    const none = await assessed('helper', '--config', 'named.json');
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('helper has no URL of its own')]);
    const { notes } = JSON.parse(stdout) as Report;
    expect(notes).toContain('No MCP: initialize got 404');
    expect([...keys]).toContain(KEY);
    expect(stdout).not.toContain(KEY);
  });

  it('runs as examples/assess.yml writes it, from a clone of Parley in the folder of the server', async () => {
    const workflow = parse(readFileSync(new URL('../../examples/assess.yml', import.meta.url), 'utf8')) as Workflow;
    const { steps } = workflow.jobs.assess;
    const clone = steps.find(({ with: given }) => given?.['repository'] !== undefined)!.with!['path'] as string;
    const command = steps.find(({ name }) => name === 'Assess')!.run!;
    const own = mkdtempSync(join(folder, 'own-'));
    symlinkSync(fileURLToPath(new URL('../..', import.meta.url)), join(own, clone));
    copyFileSync(new URL('../../examples/units.mjs', import.meta.url), join(own, 'server.mjs'));
    const code = await new Promise((resolve) => exec(command, { cwd: own }, (error) => resolve(error?.code ?? 0)));
    const { score } = JSON.parse(readFileSync(join(own, 'report.json'), 'utf8')) as Report;
    expect(score).toBeGreaterThan(0);
    expect(code).toBe(score >= 90 ? 0 : 1);
    const written = ['badge.svg', 'junit.xml', 'report.html'];
    expect(written.filter((each) => !existsSync(join(own, each)))).toEqual([]);
  });

  it('shows a bar and a line for each surface on a terminal', async () => {
    const command = `${process.execPath} ${BIN} assess ${url} --revision ${REVISION} --rate 1000`;
    const terminal = Terminal.run(command, { cwd: folder, columns: 120, env: { PATH: process.env['PATH'] ?? '' } });
    await terminal.shows(/\[#+\.+\] \d+ passed, \d+ failed [A-Z]+-\d+\w? 2025-06-18 over http/);
    await terminal.shows(/2025-06-18 over http: \d+ passed, \d+ failed\n/);
    await terminal.shows(/\d+ gaps:/);
    await terminal.interrupt();
  });
});

/** An expression for the browser: the words in the table of categories that are split over two lines. */
const BROKEN_WORDS = `[...document.querySelectorAll('.categories th, .categories td:first-child')].flatMap((each) => {
  const range = document.createRange();
  return [...each.textContent.matchAll(/\\S+/g)].filter(({ 0: word, index }) => {
    range.setStart(each.firstChild, index);
    range.setEnd(each.firstChild, index + word.length);
    return range.getClientRects().length > 1;
  }).map(([word]) => word);
})`;

describe('the page', () => {
  it('fits a phone and paper, and requests no other address', async () => {
    await run('--output', 'page.json');
    await run('--compare', 'page.json', '--output', 'page.html');
    const browser = await startBrowser({ viewport: { width: 320, height: 640 } });
    try {
      const page = await browser.page();
      await page.goto(pathToFileURL(file('page.html')).href);
      for (const media of ['screen', 'print'] as const) {
        await page.emulateMedia({ media });
        const overhang = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
        expect(await page.evaluate(overhang), media).toBe(0);
        expect(await page.evaluate(BROKEN_WORDS), media).toEqual([]);
      }
      const text = await page.textContent('body');
      for (const part of ['Changes since the last run', 'Categories', 'P0:', 'P1:', 'Requirements', 'Methods'])
        expect(text).toContain(part);
      // Printed evidence is complete. On the screen, long evidence has a scroll bar.
      const cut = `[...document.querySelectorAll('pre')].filter((each) => each.scrollHeight > each.clientHeight + 1).length`;
      expect(await page.evaluate(cut)).toBe(0);
      expect(browser.requests.filter((each) => !each.startsWith('file:'))).toEqual([]);
      // An XML parser accepts the JUnit files and the badge, also for several targets.
      const report = JSON.parse(read('page.json')) as Report;
      for (const format of ['junit', 'badge'] as const)
        for (const reports of [[report], [report, { ...report, target: 'http://other.example/<&>' }]]) {
          const parsed = `new DOMParser().parseFromString(${JSON.stringify(render(reports, format))}, 'text/xml')`;
          const facts = `(() => { const it = ${parsed}; return [it.querySelectorAll('parsererror').length, it.documentElement.nodeName, it.querySelectorAll('testsuite').length] })()`;
          const suites = format === 'junit' ? reports.length : 0;
          expect(await page.evaluate(facts)).toEqual([0, format === 'junit' ? 'testsuites' : 'svg', suites]);
        }
    } finally {
      await browser.close();
    }
  });
});
