import { expect, test } from 'vitest';
import { configFrom } from './load.js';
import { ConfigError } from './problem.js';
import { readEntry } from './upstream-entry.js';

const URL = 'http://127.0.0.1:1/mcp';
const servers = { files: { url: URL, groups: ['docs'] }, 'web-search': { url: URL } };

function problemsOf(views: object, more: object = {}): string[] {
  try {
    return configFrom({ servers, ...more, views }).warnings.map(
      ({ key, message, fix }) => `${key}: ${message}; ${fix}`,
    );
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems.map(({ key, message, fix }) => `${key}: ${message}; ${fix}`);
  }
}

test('a valid view has no problems', () => {
  const view = {
    servers: ['Files'],
    groups: ['docs'],
    when: '"analysts" in caller.groups && jwt.email.endsWith("@example.com")',
    tools: { allow: ['read*'], deny: ['*write'], rename: { files__read: 'look' } },
    naming: { prefix: 'never' },
    routing: { exposure: 'search' },
  };
  expect(problemsOf({ research: view })).toEqual([]);
});

test.each([
  [{ files: {} }, '"files" is also the name of a server, and both would be served at /mcp/files'],
  [{ FILES: {} }, '"files" is also the name of a server, and both would be served at /mcp/files'],
  [{ planner: {} }, '"planner" is also the name of an agent'],
  [{ sse: {} }, '"sse" is taken: /mcp/sse is an endpoint of the gateway'],
  [{ WS: {} }, '"WS" is taken: /ws/mcp is an endpoint of the gateway'],
  [{ a__b: {} }, '"a__b" cannot be the name of a view'],
  [{ a: {}, A: {} }, '"A" is the same name as views.a'],
  [{ a: { servers: ['file'] } }, 'there is no server "file" in the configuration; did you mean files?'],
  [{ a: { groups: ['doc'] } }, 'no server of the configuration is in the group "doc"; did you mean docs?'],
  [{ a: { naming: { separator: '-' } } }, 'the name of the server "web-search" contains it'],
  [{ a: { tools: { rename: { read: 'x' } } } }, '"read" names no server; write the name as server__read'],
  [{ a: { tools: { rename: { files__a: 'x', files__b: 'x' } } } }, '"x" is also the new name of "files__a"'],
  [{ a: { tools: { rename: { files__a: 'no blanks' } } } }, 'is not a name for a tool of a view'],
  [{ a: { when: 'caller.group == "x"' } }, 'column'],
  [{ a: { when: 'tool == "x"' } }, 'reads tool, which a view does not have'],
])('%j is reported: %s', (views, message) => {
  expect(problemsOf(views, { agents: { planner: { url: URL } } })).toEqual([expect.stringContaining(message)]);
});

test('a server cannot be registered under the name of a view', () => {
  const { config } = configFrom({ servers, views: { Research: {} } });
  expect(() => readEntry('servers', 'research', { url: URL }, { config, env: {} })).toThrow(
    '"research" is also the name of a view, and both would be served at /mcp/research',
  );
});

test('the access groups of another program become groups', () => {
  const { config } = configFrom({ mcp_servers: { zapier: { url: URL, access_groups: ['team-a', 'team-b'] } } });
  expect(config.servers['zapier']?.groups).toEqual(['team-a', 'team-b']);
});
