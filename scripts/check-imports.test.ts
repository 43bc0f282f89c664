import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

const SCRIPT = fileURLToPath(new URL('./check-imports.mjs', import.meta.url));

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'parley-imports-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Runs the check over a tree of these files. Imported files are created empty. */
function check(files: Readonly<Record<string, string>>): { code: number | null; problems: string[]; summary: string } {
  const tree: Record<string, string> = {
    'src/protocol/errors.ts': '',
    'src/protocol/mcp/revisions/index.ts': '',
    'src/protocol/mcp/revisions/2025-11-25/index.ts': '',
    'src/core/gateway.ts': '',
    'src/outbound/http/index.ts': "import { connect } from 'node:tls';",
    'src/identity/token-strength.ts': '',
    'src/identity/guard.ts': '',
    'src/state/index.ts': '',
    'src/app/serve.ts': '',
    'src/cli/main.ts': '',
    ...files,
  };
  for (const [name, text] of Object.entries(tree)) {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), text);
  }
  const { status, stdout, stderr } = spawnSync(process.execPath, [SCRIPT, folder], { encoding: 'utf8' });
  return { code: status, problems: stderr.split('\n').filter(Boolean), summary: stdout.trim() };
}

test.each([
  ['src/protocol/a.ts', "import { Buffer } from 'node:buffer';\nimport { x } from './errors.js';"],
  ['src/core/a.ts', "import type { Reason } from '../protocol/errors.js';"],
  ['src/interceptors/a.ts', "import { g } from '../core/gateway.js';\nimport { e } from '../protocol/errors.js';"],
  [
    'src/inbound/http/a.ts',
    "import { g } from '../../identity/guard.js';\nimport type { S } from '../../state/index.js';",
  ],
  [
    'src/outbound/mcp/a.ts',
    "import { type S, type T } from '../../state/index.js';\nimport { h } from '../http/index.js';",
  ],
  [
    'src/config/a.ts',
    "import { t } from '../identity/token-strength.js';\nimport { r } from '../protocol/mcp/revisions/index.js';",
  ],
  ['src/app/a.ts', "import { g } from '../core/gateway.js';\nimport { s } from '../state/index.js';"],
  ['src/cli/a.ts', "import { startServe } from '../app/serve.js';"],
  [
    'src/core/b.ts',
    "// import { h } from '../outbound/http/index.js'; and 2025-11-25\n/* any: any */ const s = 'import any as any';",
  ],
  [
    'src/core/c.ts',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text
    'const r = /[\'"]/; // the quote above opens no string: 2025-11-25\nconst t = `${{ a: `"` }.a}`; // 2025-11-25',
  ],
  ['src/core/a.test.ts', "import { h } from '../outbound/http/index.js';\nconst date = '2025-11-25';"],
])('%s is allowed', (name, text) => {
  expect(check({ [name]: text })).toMatchObject({ code: 0, problems: [] });
});

test.each([
  [
    'src/protocol/a.ts',
    "import { g } from '../core/gateway.js';",
    'protocol may not import core (../core/gateway.js); it may import no other layer',
  ],
  [
    'src/protocol/a.ts',
    "import fs from 'node:fs';",
    'protocol may not import node:fs; it may import node:buffer, node:crypto',
  ],
  [
    'src/protocol/a.ts',
    "import { z } from 'zod';",
    'protocol may not import the package zod; it must not depend on packages',
  ],
  [
    'src/core/a.ts',
    "import type { H } from '../outbound/http/index.js';",
    'core may not import outbound (../outbound/http/index.js); it may import protocol, telemetry/log',
  ],
  [
    'src/core/a.ts',
    "export * from '../outbound/http/index.js';",
    'core may not import outbound (../outbound/http/index.js); it may import protocol, telemetry/log',
  ],
  [
    'src/core/a.ts',
    "const h = await import('../outbound/http/index.js');",
    'core may not import outbound (../outbound/http/index.js); it may import protocol, telemetry/log',
  ],
  [
    'src/core/a.ts',
    "import {\n  a,\n  b,\n} from '../outbound/http/index.js';",
    'core may not import outbound (../outbound/http/index.js); it may import protocol, telemetry/log',
  ],
  [
    'src/core/a.ts',
    "import '../outbound/http/index.js';",
    'core may not import outbound (../outbound/http/index.js); it may import protocol, telemetry/log',
  ],
  [
    'src/core/a.ts',
    "import http from 'node:http';",
    'node:http belongs to src/inbound/http/ and src/assess/client/: only these folders serve HTTP',
  ],
  [
    'src/core/a.ts',
    "import fs from 'node:fs';",
    'core may not import node:fs; it may import node:buffer, node:crypto, node:events',
  ],
  [
    'src/inbound/a.ts',
    "import { h } from '../outbound/http/index.js';",
    'inbound may not import outbound (../outbound/http/index.js); it may import core, protocol, identity, telemetry, type state',
  ],
  [
    'src/inbound/a.ts',
    "import { s } from '../state/index.js';",
    'inbound may import only types of state: write import type (../state/index.js)',
  ],
  [
    'src/config/a.ts',
    "import { g } from '../identity/guard.js';",
    'config may not import identity (../identity/guard.js); it may import identity/token-strength, identity/mask-secrets, identity/policy, plugins/api, protocol/mcp/revisions, protocol/a2a/dialect',
  ],
  [
    'src/outbound/mcp/a.ts',
    "import { connect } from 'node:tls';",
    'node:tls belongs to src/inbound/http/ and src/outbound/http/: only these folders accept or open connections',
  ],
  [
    'src/app/a.ts',
    "import { main } from '../cli/main.js';",
    'app may not import cli (../cli/main.js); it may import protocol, core, interceptors, plugins, identity, telemetry, state, inbound, outbound, cluster, assess, config',
  ],
  [
    'src/core/a.ts',
    "import { startServe } from '../app/serve.js';",
    'core may not import app (../app/serve.js); it may import protocol, telemetry/log',
  ],
  [
    'src/extra.ts',
    "import { g } from './core/gateway.js';",
    'the layer "extra" has no rule; add it to scripts/check-imports.mjs',
  ],
  [
    'src/cellar/a.ts',
    "import { g } from '../core/gateway.js';",
    'the layer "cellar" has no rule; add it to scripts/check-imports.mjs',
  ],
  ['src/core/a.ts', "import { g } from './gone.js';", './gone.js does not exist'],
  ['src/core/a.ts', "import { g } from '../../test/a.js';", '../../test/a.js is outside of src'],
  [
    'src/core/a.ts',
    "if (version === '2025-11-25') go();",
    'the revision 2025-11-25 is named outside of src/protocol; ask a revision what it can express instead',
  ],
  [
    'src/core/a.ts',
    'if (error.code === -32601) go();',
    'the error code -32601 belongs to src/protocol; decide by the reason of an error instead',
  ],
  [
    'src/interceptors/a.ts',
    "if (revision.era === 'modern') go();",
    '.era is a branch on an era; ask a revision what it can express instead',
    "'modern' is a branch on an era; ask a revision what it can express instead",
  ],
  ['src/core/a.ts', 'await new Promise((resolve) => setTimeout(resolve, 5));', 'use sleep or within of core/timing'],
  ['src/core/a.ts', 'const a = b as any;', 'any is not allowed as a type; use unknown'],
  ['src/core/a.ts', 'function f(a: string, b: any[]) {}', 'any is not allowed as a type; use unknown'],
  ['src/core/a.ts', 'const m = new Map<string, any>();', 'any is not allowed as a type; use unknown'],
])('%s: %s', (name, text, ...messages) => {
  const { code, problems } = check({ [name]: text });
  expect({ code, problems }).toEqual({ code: 1, problems: messages.map((message) => `${name}:1: ${message}`) });
});

test('a problem has the right line number', () => {
  const text =
    "/* two\nlines */\nimport { e } from '../protocol/errors.js';\n\nimport { h } from '../outbound/http/index.js';\n";
  expect(check({ 'src/core/a.ts': text }).problems).toEqual([expect.stringMatching(/^src\/core\/a\.ts:5: /)]);
});

test('circular imports are reported with the shortest cycle', () => {
  const { code, problems, summary } = check({
    'src/core/a.ts': "import { b } from './b.js';",
    'src/core/b.ts': "import type { c } from './c.js';\nimport { d } from './d.js';",
    'src/core/c.ts': "import { a } from './a.js';",
    'src/core/d.ts': "import { c } from './c.js';",
    'src/core/e.ts': "import { a } from './a.js';",
  });
  expect(problems).toEqual(['src/core/a.ts: circular imports: core/a.ts -> core/b.ts -> core/c.ts -> core/a.ts']);
  expect({ code, summary }).toEqual({ code: 1, summary: '15 files, 1 problem' });
});
