/**
 * S28: few dependencies, none with an install script, all locked with a checksum. S29: files and memory of the process.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { startGateway } from '../support/gateway.js';

interface Locked {
  readonly version?: string;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly dev?: boolean;
  readonly link?: boolean;
  readonly optional?: boolean;
  readonly hasInstallScript?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}
const read = (name: string): unknown => JSON.parse(readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8'));
const manifest = read('package.json') as Locked & {
  readonly scripts: Readonly<Record<string, string>>;
  readonly allowScripts?: Readonly<Record<string, boolean>>;
};
const { packages } = read('package-lock.json') as { packages: Readonly<Record<string, Locked>> };
const shipped = Object.entries(packages).filter(([name, { dev }]) => name !== '' && !dev);

describe('S28: dependencies', () => {
  test('of the gateway itself are at most 15, and those of OTLP and of SQLite on Node 20, which it loads on demand', () => {
    expect(Object.keys(manifest.dependencies ?? {}).length).toBeLessThanOrEqual(15);
    expect(Object.keys(manifest.optionalDependencies ?? {})).toEqual([
      '@opentelemetry/exporter-trace-otlp-proto',
      '@opentelemetry/otlp-exporter-base',
      '@opentelemetry/otlp-transformer',
      '@photostructure/sqlite',
    ]);
  });

  test('run no script when they are installed, unless the gateway works without it', () => {
    const scripted = shipped.filter(([, { hasInstallScript }]) => hasInstallScript);
    // An optional dependency with prebuilt files; its script is switched off.
    expect(scripted.map(([name, { optional }]) => [name.replace('node_modules/', ''), optional])).toEqual(
      scripted.map(([name]) => [name.replace('node_modules/', ''), true]),
    );
    for (const [name] of scripted) expect(manifest.allowScripts?.[name.replace('node_modules/', '')], name).toBe(false);
    for (const hook of ['preinstall', 'install', 'postinstall', 'prepare'])
      expect(manifest.scripts[hook], hook).toBeUndefined();
  });

  test('that are shipped are locked to a version of the registry with a checksum', () => {
    for (const [name, { version, resolved, integrity }] of shipped) {
      expect(version, name).toMatch(/^\d+\.\d+\.\d+/);
      expect(integrity, name).toMatch(/^sha512-/);
      // Without an address, npm uses the configured registry.
      expect(resolved ?? 'https://', name).toMatch(/^https:\/\//);
    }
  });

  test('are the same in the manifest and in the lock file', () => {
    for (const kind of ['dependencies', 'devDependencies', 'optionalDependencies'] as const)
      expect(packages['']?.[kind], kind).toEqual(manifest[kind]);
  });
});

describe('S29: the process', () => {
  test('writes files that only its owner reads, and keeps its memory out of core dumps', async () => {
    const data = mkdtempSync(join(tmpdir(), 'parley-files-'));
    const gateway = await startGateway({}, { data: join(data, 'data') });
    try {
      const files = readdirSync(join(data, 'data'), { recursive: true, withFileTypes: true });
      expect(files.length).toBeGreaterThan(0);
      for (const file of files) {
        const mode = statSync(join(file.parentPath, file.name)).mode & 0o777;
        expect(mode & 0o077, `${file.name} has mode ${mode.toString(8)}`).toBe(0);
      }
      expect(Number.parseInt(readFileSync(`/proc/${gateway.pid}/coredump_filter`, 'utf8'), 16)).toBe(0);
    } finally {
      await gateway.close();
      rmSync(data, { recursive: true, force: true });
    }
  });
});
