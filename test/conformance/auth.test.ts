/**
 * The official suite's `auth/*` scenarios, with the gateway as the OAuth client of the suite's server: every required
 * scenario of both revisions, those for servers of 2025-03-26, and the extension for client credentials. Excluded: the
 * extensions of the suite that no revision requires (DPoP, workload identity, identity assertions). `npm test` runs a
 * few scenarios; `npm run test:conformance` runs all.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { describeFailures, isWhole, locateSuite, runClientScenario, type SpecVersion } from './run.js';

const COMMAND = `${process.execPath} test/conformance/client-wrapper.mjs`;

const BOTH = [
  'metadata-default',
  'metadata-var1',
  'metadata-var2',
  'metadata-var3',
  'basic-cimd',
  'scope-from-www-authenticate',
  'scope-from-scopes-supported',
  'scope-omitted-when-undefined',
  'scope-step-up',
  'scope-retry-limit',
  'token-endpoint-auth-basic',
  'token-endpoint-auth-post',
  'token-endpoint-auth-none',
  'pre-registration',
];
const NEWER = [
  'resource-mismatch',
  'offline-access-scope',
  'offline-access-not-supported',
  'authorization-server-migration',
  'iss-supported',
  'iss-not-advertised',
  'iss-supported-missing',
  'iss-wrong-issuer',
  'iss-unexpected',
  'iss-normalized',
  'metadata-issuer-mismatch',
];

/** Servers of the first revision with OAuth have no resource metadata, and perhaps no metadata at all. */
const FIRST = ['2025-03-26-oauth-metadata-backcompat', '2025-03-26-oauth-endpoint-fallback'];

/** An extension: its scenarios have no revision. */
const EXTENSION = ['client-credentials-basic', 'client-credentials-jwt'];

const all: readonly { scenario: string; specVersion?: SpecVersion }[] = [
  ...EXTENSION.map((name) => ({ scenario: `auth/${name}` })),
  ...FIRST.map((name) => ({ scenario: `auth/${name}`, specVersion: '2025-03-26' as const })),
  ...BOTH.map((name) => ({ scenario: `auth/${name}`, specVersion: '2025-11-25' as const })),
  ...[...BOTH, ...NEWER].map((name) => ({ scenario: `auth/${name}`, specVersion: '2026-07-28' as const })),
];

/**
 * The scenarios of `npm test`: one sign-in per revision, a request for more scopes, the confusion of two issuers, a
 * signed client.
 */
const FEW = new Set([
  'auth/client-credentials-jwt',
  '2025-11-25 auth/metadata-default',
  '2026-07-28 auth/metadata-default',
  '2026-07-28 auth/scope-step-up',
  '2026-07-28 auth/iss-wrong-issuer',
]);
const isOfFew = ({ scenario, specVersion }: (typeof all)[number]): boolean =>
  FEW.has(specVersion ? `${specVersion} ${scenario}` : scenario);
const scenarios = isWhole ? all : all.filter(isOfFew);

beforeAll(locateSuite, 660_000);

describe('the gateway as an OAuth client', () => {
  it.each(scenarios)('$scenario at $specVersion', { timeout: 300_000 }, async (chosen) => {
    const result = await runClientScenario({ command: COMMAND, ...chosen });
    expect(result.ok, `${describeFailures({ ...result, scenarios: [result] })}\n${result.output}`).toBe(true);
    expect(result.passed).toBeGreaterThan(0);
  });
});
