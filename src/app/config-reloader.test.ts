import { expect, test } from 'vitest';
import { configFrom, type Loaded } from '../config/load.js';
import type { Config } from '../config/schema.js';
import { SILENT } from '../telemetry/log.js';
import { LogLevelSwitch } from '../telemetry/log-level.js';
import { ConfigReloader } from './config-reloader.js';

const load = (value: object): Loaded => configFrom(value, { cwd: '/' });
const LEVELS = ['trace', 'debug', 'info', 'warn', 'error'];
const ONE = { servers: { one: { command: 'x' } } };

function world(first: object = ONE) {
  let file = first;
  const applied: { config: Config; by: string | undefined }[] = [];
  const lines: string[] = [];
  const write = (_: object, text: string): void => void lines.push(text);
  const log = {
    ...{ ...SILENT, info: write, warn: write, error: write, level: 'info' },
    isLevelEnabled: (level: string): boolean => LEVELS.indexOf(level) >= LEVELS.indexOf(log.level),
  };
  const levels = new LogLevelSwitch(log);
  const reloader = new ConfigReloader({ load: () => load(file), first: load(first), log, levels });
  const gateway = {
    failing: false,
    async reload(config: Config, by?: { caller: string }) {
      await Promise.resolve();
      if (gateway.failing) throw new Error('no space');
      applied.push({ config, by: by?.caller });
      return ['hosts'];
    },
  };
  return { reloader, gateway, applied, lines, log, levels, write: (next: object) => (file = next) };
}

test('applies a valid file and reports the changes and the keys that need a restart', async () => {
  const { reloader, gateway, applied, log, write } = world();
  reloader.attach(gateway);
  write({ ...ONE, hosts: ['a'], log: { level: 'debug' } });
  const report = await reloader.reload({ by: { caller: 'ada' } });
  expect(report).toMatchObject({ outcome: 'applied', restart: ['hosts'], problems: [] });
  expect(report.changes.map(({ key, restart }) => [key, restart])).toEqual([
    ['hosts', true],
    ['log.level', false],
  ]);
  expect(applied).toMatchObject([{ by: 'ada', config: { hosts: ['a'] } }]);
  expect(log.level).toBe('debug');
  expect(await reloader.reload()).toMatchObject({ outcome: 'unchanged', changes: [] });
});

test('a file with errors changes nothing, and the report names each error with its fix', async () => {
  const { reloader, gateway, applied, lines, write } = world();
  reloader.attach(gateway);
  write({ servers: { one: { comand: 'x' } }, listen: 'nowhere' });
  const report = await reloader.reload();
  expect(report.outcome).toBe('invalid');
  expect(report.problems.filter(({ severity }) => severity === 'error').length).toBeGreaterThan(1);
  for (const { fix, key } of report.problems) expect([fix, key]).not.toContain('');
  expect(applied).toEqual([]);
  expect(lines.at(-1)).toContain('the configuration in use stays in effect');
  write({ servers: { one: { command: 'y' } } });
  expect(await reloader.reload()).toMatchObject({ outcome: 'applied', changes: [{ key: 'servers.one.command' }] });
});

test('a preview applies nothing and logs nothing', async () => {
  const { reloader, gateway, applied, lines, write } = world();
  reloader.attach(gateway);
  write({ servers: { two: { command: 'x' } } });
  const report = await reloader.reload({ preview: true });
  expect(report).toMatchObject({
    outcome: 'preview',
    changes: [
      { key: 'servers.one', change: 'removed' },
      { key: 'servers.two', change: 'added' },
    ],
  });
  write({ listen: 'nowhere' });
  expect(await reloader.reload({ preview: true })).toMatchObject({ outcome: 'invalid' });
  expect([applied, lines]).toEqual([[], []]);
});

test('a failure of the gateway is reported, and the next reload tries the same changes again', async () => {
  const { reloader, gateway, applied, write } = world();
  write({ servers: { two: { command: 'x' } } });
  expect(await reloader.reload()).toMatchObject({ outcome: 'failed' });
  reloader.attach(gateway);
  gateway.failing = true;
  expect(await reloader.reload()).toMatchObject({ outcome: 'failed', changes: [{}, {}] });
  gateway.failing = false;
  expect(await reloader.reload({ ifChanged: true })).toMatchObject({ outcome: 'applied', changes: [{}, {}] });
  expect(await reloader.reload({ ifChanged: true })).toMatchObject({ outcome: 'unchanged' });
  expect(applied).toHaveLength(1);
});

test('after a failure, a file that was restored to its earlier content is applied too', async () => {
  const { reloader, gateway, applied, write } = world();
  reloader.attach(gateway);
  gateway.failing = true;
  write({ servers: { two: { command: 'x' } } });
  expect(await reloader.reload({ ifChanged: true })).toMatchObject({ outcome: 'failed' });
  gateway.failing = false;
  write(ONE);
  expect(await reloader.reload({ ifChanged: true })).toMatchObject({ outcome: 'applied', changes: [] });
  expect(applied).toHaveLength(1);
  expect(await reloader.reload({ ifChanged: true })).toMatchObject({ outcome: 'unchanged' });
});

test('a log level that was switched by a signal stays until the file names another level', async () => {
  const { reloader, gateway, log, levels, write } = world();
  reloader.attach(gateway);
  levels.toggle();
  write({ servers: { two: { command: 'x' } } });
  await reloader.reload();
  expect(log.level).toBe('debug');
  levels.toggle();
  expect(log.level).toBe('info');
  levels.toggle();
  write({ ...ONE, log: { level: 'warn' } });
  await reloader.reload();
  expect(log.level).toBe('warn');
  levels.toggle();
  levels.toggle();
  expect(log.level).toBe('warn');
});

test('reloads run one after the other', async () => {
  const { reloader, gateway, write } = world();
  reloader.attach(gateway);
  write({ servers: { two: { command: 'x' } } });
  const outcomes = await Promise.all([reloader.reload(), reloader.reload(), reloader.reload({ preview: true })]);
  expect(outcomes.map(({ outcome }) => outcome)).toEqual(['applied', 'unchanged', 'preview']);
});
