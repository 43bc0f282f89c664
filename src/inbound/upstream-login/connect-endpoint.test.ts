import { expect, test } from 'vitest';
import { RESERVED_LOGINS } from '../../config/upstream-login-rules.js';
import { MCP_ERRORS } from '../mcp/early-refusal.js';
import { type BrowserIdentity, ConnectEndpoint, type ConnectEndpointOptions } from './connect-endpoint.js';

test('no server at which users sign in can have the name of a path that the gateway serves itself', () => {
  const browser = {} as BrowserIdentity;
  const endpoint = new ConnectEndpoint({ browser } as ConnectEndpointOptions);
  const paths = endpoint.routes(MCP_ERRORS).map(({ path }) => path);
  const segments = paths.flatMap((path) => /^\/connect\/([^/{]+)/.exec(path)?.[1] ?? []);
  expect(new Set(segments)).toEqual(RESERVED_LOGINS);
});
