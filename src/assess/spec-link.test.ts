import { expect, it } from 'vitest';
import { A2A_REQUIREMENTS } from './a2a/requirements.js';
import { MCP_REQUIREMENTS } from './mcp/requirements.js';
import { specLink } from './spec-link.js';

const linkOf = (id: string): string =>
  specLink([...MCP_REQUIREMENTS, ...A2A_REQUIREMENTS].find((each) => each.id === id)!);

it('a requirement links to the newest version that has it', () => {
  expect(linkOf('SSE-01a')).toContain('/specification/2024-11-05/');
  expect(linkOf('BASE-04a')).toContain('/specification/2026-07-28/');
  expect(linkOf('A2A-S-2a')).toBe('https://a2a-protocol.org/v1.0.1/specification');
  // Version 1.0 has no preferred transport and no final events.
  expect(linkOf('A2A-S-5')).toBe('https://a2a-protocol.org/v0.3.0/specification');
  expect(linkOf('A2A-S-42c')).toBe('https://a2a-protocol.org/v0.3.0/specification');
  expect(linkOf('A2A-S-1b')).toBe('https://a2a-protocol.org/v0.2.6/specification');
});
