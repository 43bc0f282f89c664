import { expect, test } from 'vitest';
import { type ClientStore, clientAt, forgetClient, type RegistrationOptions, waysOf } from './client-registration.js';
import type { LoginPlan } from './discovery.js';
import type { LoginSettings } from './login-settings.js';
import type { Fetch } from './oauth-library.js';

const ISSUER = 'https://as.example';
const settings = (more: Partial<LoginSettings> = {}): LoginSettings => ({ scopes: [], quirks: [], ...more });
const planOf = (more: object = {}, issuer = ISSUER): LoginPlan => ({
  issuer,
  server: issuer,
  metadata: {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    response_types_supported: ['code'],
    ...more,
  } as LoginPlan['metadata'],
  resource: undefined,
  scope: undefined,
  namesIssuer: false,
});

class Clients implements ClientStore {
  readonly rows = new Map<string, object>();
  async get<T>(key: object): Promise<T | undefined> {
    return this.rows.get(JSON.stringify(key)) as T | undefined;
  }
  async add<T extends object>(key: object, client: T): Promise<T> {
    const id = JSON.stringify(key);
    if (!this.rows.has(id)) this.rows.set(id, client);
    return this.rows.get(id) as T;
  }
  async remove(key: object): Promise<void> {
    this.rows.delete(JSON.stringify(key));
  }
}

function registrar(answers: (body: Record<string, unknown>) => Response) {
  const bodies: Record<string, unknown>[] = [];
  const fetch: Fetch = async (_, init) => {
    const body = JSON.parse(String(init?.body)) as Record<string, unknown>;
    bodies.push(body);
    return answers(body);
  };
  return { fetch, bodies };
}

let made = 0;
const accepting = () => registrar((body) => Response.json({ ...body, client_id: `client-${++made}` }, { status: 201 }));

const optionsOf = (more: Partial<RegistrationOptions>): RegistrationOptions => ({
  upstream: 'server:notes',
  plan: planOf({ registration_endpoint: `${ISSUER}/register` }),
  settings: settings(),
  redirectUri: 'https://gateway.example/connect/callback',
  documentUrl: undefined,
  scope: 'read',
  clients: new Clients(),
  fetch: accepting().fetch,
  ...more,
});

test('AUC-07 to 09: the document first, then registration; a configured client beats both', () => {
  const document = 'https://gateway.example/connect/client-metadata.json';
  const both = planOf({ client_id_metadata_document_supported: true, registration_endpoint: `${ISSUER}/register` });
  expect(waysOf(both, settings(), document)).toEqual(['metadata', 'dynamic']);
  expect(waysOf(both, settings(), undefined)).toEqual(['dynamic']);
  expect(waysOf(both, settings({ clientId: 'own' }), document)).toEqual(['static']);
  expect(waysOf(both, settings({ registration: 'dynamic' }), document)).toEqual(['dynamic']);
  expect(waysOf(planOf(), settings(), document)).toEqual([]);
});

test('registers once, uses the stored client, and registers again after it is forgotten', async () => {
  const { fetch, bodies } = accepting();
  const options = optionsOf({ fetch });
  const first = await clientAt(options);
  expect((await clientAt(options)).client_id).toBe(first.client_id);
  expect(bodies).toHaveLength(1);
  expect(bodies[0]).toMatchObject({ redirect_uris: [options.redirectUri], client_name: 'Parley' });
  await forgetClient(options);
  expect((await clientAt(options)).client_id).not.toBe(first.client_id);
});

test('S15: the registration of one issuer is not used at another one', async () => {
  const clients = new Clients();
  const first = await clientAt(optionsOf({ clients }));
  const plan = planOf({ registration_endpoint: 'https://other.example/register' }, 'https://other.example');
  expect((await clientAt(optionsOf({ clients, plan }))).client_id).not.toBe(first.client_id);
});

test('S15: a configured client stays with the issuer that it was used at first', async () => {
  const options = optionsOf({ settings: settings({ clientId: 'own', clientSecret: 'secret' }) });
  expect(await clientAt(options)).toMatchObject({ client_id: 'own', client_secret: 'secret' });
  const moved = { ...options, plan: planOf({}, 'https://evil.example') };
  await expect(clientAt(moved)).rejects.toThrow('a different authorization server');
  // The operator may configure the new issuer.
  const named = settings({ clientId: 'own', issuer: 'https://evil.example' });
  expect((await clientAt({ ...moved, settings: named })).client_id).toBe('own');
});

test('AUC-09: a refused registration is repeated without the scope; after another refusal the error says what to do', async () => {
  const picky = registrar((body) =>
    body['scope'] === undefined
      ? Response.json({ ...body, client_id: 'without-scope' }, { status: 201 })
      : Response.json({ error: 'invalid_client_metadata' }, { status: 400 }),
  );
  const [plain] = [await clientAt(optionsOf({ fetch: picky.fetch }))];
  expect(plain.client_id).toBe('without-scope');
  const closed = registrar(() => Response.json({ error: 'access_denied' }, { status: 403 }));
  await expect(clientAt(optionsOf({ fetch: closed.fetch }))).rejects.toMatchObject({
    hop: 'registration',
    advice: expect.stringContaining('clientId'),
  });
});

test('if no way is possible, the error says to register by hand', async () => {
  await expect(clientAt(optionsOf({ plan: planOf() }))).rejects.toMatchObject({ hop: 'registration' });
});
