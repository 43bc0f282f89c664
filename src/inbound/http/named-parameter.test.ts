import { describe, expect, it } from 'vitest';
import { type Admission, serverTarget } from '../../core/admission.js';
import { LOCAL, principalOf } from '../../core/caller.js';
import { ProtocolError } from '../../protocol/errors.js';
import { namedParameter } from './named-parameter.js';
import type { ErrorFormat } from './route.js';
import { RouteTable } from './route-table.js';

const SERVERS = ['files', 'secret'];
const ada = principalOf({ subject: 'ada' });
const errors: ErrorFormat = { name: 'none', write: () => {} };

const tableWith = (admission: Pick<Admission, 'sees'>): RouteTable =>
  new RouteTable({
    routes: [{ method: 'GET', path: '/{server}', access: 'user', errors, description: 'A server', handle: () => {} }],
    parameters: {
      server: namedParameter({
        find: (value) => SERVERS.find((name) => name === value.toLowerCase()),
        targetOf: serverTarget,
        missing: () => new ProtocolError('not_found', 'Nothing is served here'),
        admission,
      }),
    },
    errors,
  });

const resolve = async (table: RouteTable, path: string, principal = ada) =>
  table.resolve(table.match(path), path, principal);

const refusal = (table: RouteTable, path: string): Promise<unknown> =>
  resolve(table, path).then(
    () => 'served',
    (error: unknown) => ({ reason: (error as ProtocolError).reason, message: (error as Error).message }),
  );

const onlyFiles = ({ principal }: { principal: { key: string } }, { name }: { name: string }): boolean =>
  principal.key === LOCAL.key || name === 'files';

describe.each<[string, Pick<Admission, 'sees'>]>([
  ['at once', { sees: onlyFiles }],
  ['later', { sees: async (caller, target) => onlyFiles(caller, target) }],
])('a name hidden from the caller, decided %s', (_, admission) => {
  it('gets the same response as an unknown name', async () => {
    const table = tableWith(admission);
    expect(await refusal(table, '/secret')).toEqual(await refusal(table, '/nobody'));
    expect(await refusal(table, '/secret')).toMatchObject({ reason: 'not_found' });
  });

  it('is visible to other callers', async () => {
    const table = tableWith(admission);
    expect(await resolve(table, '/Secret', LOCAL)).toEqual({ server: 'secret' });
    expect(await resolve(table, '/FILES')).toEqual({ server: 'files' });
  });
});

it('needs no promise if nothing is hidden', () => {
  const table = tableWith({});
  expect(table.resolve(table.match('/secret'), '/secret', ada)).toEqual({ server: 'secret' });
  expect(() => table.resolve(table.match('/nobody'), '/nobody', ada)).toThrow('Nothing is served here');
});
