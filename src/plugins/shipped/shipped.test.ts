import { describe, expect, it } from 'vitest';
import { ALONE, type Cluster } from '../../core/cluster.js';
import { Seal } from '../../core/seal.js';
import type { JsonObject, JsonValue, ListItem, Plugin, PluginCall } from '../api.js';
import { LazyResponse } from '../call-view.js';
import { descriptions } from './descriptions.js';
import { KeptResults, RESULT_SCHEME } from './kept-results.js';
import { REDACTION_KINDS, redaction } from './redaction.js';
import { resultCache } from './result-cache.js';
import { sizeGovernor } from './size-governor.js';

const callOf = (more: Partial<PluginCall> = {}, caller = 'ada'): PluginCall => ({
  protocol: 'mcp',
  method: 'tools/call',
  requestId: 'r',
  caller: { key: caller, issuer: 'parley', subject: caller, roles: [], groups: [], scopes: [], tenant: undefined },
  server: 'files',
  kind: 'tool',
  name: 'read',
  tool: { name: 'read', annotations: { readOnlyHint: true } },
  params: { name: 'read', arguments: { path: '/a' } },
  began: performance.now(),
  signal: new AbortController().signal,
  ...more,
});
const ORIGIN = { server: 'files', tool: 'read', scopes: [] };
const said = (text: string): JsonObject => ({ content: [{ type: 'text', text }] });

async function shown(plugin: Plugin, result: JsonObject, call = callOf()): Promise<JsonObject> {
  const decision = await plugin.onResponse?.(call, LazyResponse.of(result));
  return decision && 'result' in decision ? decision.result : result;
}

describe('redaction', () => {
  const plugin = redaction({ kinds: REDACTION_KINDS, patterns: ['ACME-[0-9]+'] });
  const redact = async (text: string): Promise<string> =>
    ((await shown(plugin, said(text)))['content'] as { text: string }[])[0]!.text;

  it.each([
    ['mail ada.lovelace+x@example.co.uk now', 'mail [redacted:email] now'],
    ['call +44 20 7946 0958 now', 'call [redacted:phone] now'],
    ['card 4111 1111 1111 1111.', 'card [redacted:credit-card].'],
    ['to GB82 WEST 1234 5698 7654 32 today', 'to [redacted:iban] today'],
    ['ssn 078-05-1120', 'ssn [redacted:ssn]'],
    ['key AKIAIOSFODNN7EXAMPLE', 'key [redacted:secret]'],
    ['ghp_0123456789abcdefghijABCDEFGHIJ012345', '[redacted:secret]'],
    ['Authorization: Bearer abcdefghijklmnop', 'Authorization: Bearer [redacted:secret]'],
    ['password = "correct horse"', 'password = "[redacted:secret]"'],
    ['{"api_key":"abc","n":1}', '{"api_key":"[redacted:secret]","n":1}'],
    ['{"x":"{\\"token\\":\\"abc\\"}"}', '{"x":"{\\"token\\":\\"[redacted:secret]\\"}"}'],
    ['password=correcthorse&x=1', 'password=[redacted:secret]&x=1'],
    ['postgres://ada:hunter2hunter2@db.example/x', 'postgres://[redacted:secret]@db.example/x'],
    ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.c2lnbmF0dXJl', '[redacted:secret]'],
    ['a -----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- b', 'a [redacted:private-key] b'],
    ['order ACME-1234', 'order [redacted]'],
    ['secretKey: wJalrXUtnFEMI', 'secretKey: [redacted:secret]'],
    ['{"passphrase":"correct horse"}', '{"passphrase":"[redacted:secret]"}'],
    [
      'card 378282246310005, 30569309025904 or 6011111111111117',
      `card ${Array(2).fill('[redacted:credit-card]').join(', ')} or [redacted:credit-card]`,
    ],
  ])('%s', async (text, expected) => {
    expect(await redact(text)).toBe(expected);
  });

  it('finds long tokens, and reads texts that look like the beginning of many tokens once', async () => {
    expect(await redact(`a eyJ${'x'.repeat(9_000)}.${'y'.repeat(9_000)}.z b`)).toBe('a [redacted:secret] b');
    const beginnings = 'eyJ-'.repeat(1_000_000);
    expect(await redact(beginnings)).toBe(beginnings);
  });

  it.each([
    ['long local part', `${'a'.repeat(100)}@example.com x`, '[redacted:email] x'],
    ['many labels', 'a@a.b.c.d.e.f.g.h.i.j.example.com x', '[redacted:email] x'],
    ['international address', 'jörg@exämple.de', '[redacted:email]'],
    ['address in a URL', '/x?mail=ada%40example.com&y', '/x?mail=[redacted:email]&y'],
    ['escaped address', '{"mail":"ada\\u0040example.com"}', '{"mail":"[redacted:email]"}'],
    ['address in HTML', 'ada&#64;example.com ada&#x40;example.com', '[redacted:email] [redacted:email]'],
    ['full-width letters', 'ａｄａ＠ｅｘａｍｐｌｅ．ｃｏｍ', '[redacted:email]'],
    ['invisible characters', 'ad\u200ba@exam\u00adple.com', '[redacted:email]'],
    ['card after other digits', 'order 12 4111 1111 1111 1111 of 3', 'order 12 [redacted:credit-card] of 3'],
    ['card before other digits', '4111111111111111 12/29 123', '[redacted:credit-card] 12/29 123'],
    ['card with dots', '4111.1111.1111.1111', '[redacted:credit-card]'],
    ['card beside underscores', 'card_4111111111111111_', 'card_[redacted:credit-card]_'],
    ['card with other spaces', '4111\u00a01111\u20091111\u202f1111', '[redacted:credit-card]'],
    ['card with dashes', '4111\u20131111\u20131111\u20131111', '[redacted:credit-card]'],
    ['Arabic digits', '٤١١١١١١١١١١١١١١١', '[redacted:credit-card]'],
    ['phone before letters', 'call +14155552671x12', 'call [redacted:phone]x12'],
    ['phone in a URL', 'tel=%2B14155552671&x', 'tel=[redacted:phone]&x'],
    ['social security number beside letters', 'ssn078-05-1120x', 'ssn[redacted:ssn]x'],
    ['account in small letters', 'gb82 west 1234 5698 7654 32', '[redacted:iban]'],
    ['account before words', 'ES91 2100 0418 4502 0005 1332 PAID 2024', '[redacted:iban] PAID 2024'],
    ['long secret', `sk-${'a1'.repeat(300)} x`, '[redacted:secret] x'],
    ['long password', `{"password":"${'a1'.repeat(300)}","n":1}`, '{"password":"[redacted:secret]","n":1}'],
    ['password with a quotation mark', '{"password":"ab\\"cd","n":1}', '{"password":"[redacted:secret]","n":1}'],
    ['password with an apostrophe', '{"password":"it\'s me","n":1}', '{"password":"[redacted:secret]","n":1}'],
    [
      'password with a quotation mark in quoted JSON',
      '{"x":"{\\"password\\":\\"ab\\\\\\"cd\\",\\"n\\":1}"}',
      '{"x":"{\\"password\\":\\"[redacted:secret]\\",\\"n\\":1}"}',
    ],
    [
      'password in JSON that is quoted twice',
      JSON.stringify(JSON.stringify(JSON.stringify({ password: 'a"b\\', n: 1 }))),
      JSON.stringify(JSON.stringify(JSON.stringify({ password: '[redacted:secret]', n: 1 }))),
    ],
    ['password with an @ in a URL', 'amqp://ada:p@ssw@rd@db/x', 'amqp://[redacted:secret]@db/x'],
    ['user in a URL before an address', '{"u":"http://h:80","m":"@x"}', '{"u":"http://h:80","m":"@x"}'],
    [
      'password in XML',
      '<db:password a="1">hunter2</db:password>',
      '<db:password a="1">[redacted:secret]</db:password>',
    ],
    ['cookie', 'Set-Cookie: sid=abc; Path=/\nx', 'Set-Cookie: [redacted:secret]\nx'],
    ['other authorization', 'Authorization: token a1b2c3d4e5', 'Authorization: [redacted:secret]'],
    ['numbered name', 'password1 = "hunter2"', 'password1 = "[redacted:secret]"'],
    ['token after a dash', 'token-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.c2ln', 'token-[redacted:secret]'],
  ])('%s', async (_, text, expected) => {
    expect(await redact(text)).toBe(expected);
  });

  it.each([
    'Basic understanding of basic knowledge',
    '2021 2022 2023 2024 2025 2026',
    'ａｄａ wrote ‘５ words’\u200d🧑\u200d🚀',
    'at 1763495905129',
    '{"nextPageToken":"abc"}',
    '4111 1111 1111 1112',
    'GB82 WEST 1234 5698 7654 33',
    'version 1.2.3-4',
    'id 1234567890123',
    'a@b',
  ])('leaves %s', async (text) => {
    expect(await redact(text)).toBe(text);
  });

  it('decides nothing for a result without such data, so that its bytes pass', async () => {
    expect(await plugin.onResponse?.(callOf(), LazyResponse.of(said('nothing to see')))).toBeUndefined();
  });

  it('redacts structured content and events, and leaves binary data and addresses alone', async () => {
    const mail = 'ada@example.com';
    const blob = Buffer.from(`\x89PNG\xff${mail}`, 'latin1').toString('base64');
    const result = {
      content: [
        { type: 'image', data: '4111111111111111', mimeType: 'image/png' },
        { type: 'resource_link', uri: `mailto:${mail}`, name: mail },
        { type: 'resource', resource: { uri: `x:${mail}`, blob } },
      ],
      structuredContent: { deep: [{ owner: mail }] },
    };
    expect(await shown(plugin, result)).toEqual({
      content: [
        result.content[0],
        { type: 'resource_link', uri: `mailto:${mail}`, name: '[redacted:email]' },
        result.content[2],
      ],
      structuredContent: { deep: [{ owner: '[redacted:email]' }] },
    });
    const event = { message: { messageId: '4111111111111111', parts: [{ text: mail }, { data: { to: mail } }] } };
    expect(await plugin.onEvent?.(callOf({ protocol: 'a2a' }), event)).toEqual({
      event: {
        message: {
          messageId: '4111111111111111',
          parts: [{ text: '[redacted:email]' }, { data: { to: '[redacted:email]' } }],
        },
      },
    });
  });

  it('redacts data by its names, and names and numbers of data', async () => {
    const data = {
      password: 'hunter2',
      db: { apiKey: 'abc', user: 'ada', access_token: '' },
      'ada@example.com': 1,
      'bob@example.com': 2,
      card: 4_111_111_111_111_111,
      at: 1_763_495_905_129,
      tokens: 1_200,
      nextPageToken: 'abc',
    };
    const secret = '[redacted:secret]';
    const expected = {
      password: secret,
      db: { apiKey: secret, user: 'ada', access_token: '' },
      '[redacted:email]': 1,
      '[redacted:email] 2': 2,
      card: '[redacted:credit-card]',
      at: 1_763_495_905_129,
      tokens: 1_200,
      nextPageToken: 'abc',
    };
    expect(await shown(plugin, { content: [], structuredContent: data })).toEqual({
      content: [],
      structuredContent: expected,
    });
    const log = { method: 'notifications/message', params: { level: 'info', data } };
    expect(await plugin.onEvent?.(callOf(), log)).toEqual({
      event: { ...log, params: { level: 'info', data: expected } },
    });
    const parts = (given: object): JsonObject =>
      ({ message: { messageId: 'm', parts: [given], metadata: given } }) as never;
    const answer = await shown(plugin, parts({ data }), callOf({ protocol: 'a2a' }));
    expect(answer).toEqual({
      message: { messageId: 'm', parts: [{ data: expected }], metadata: { data: expected } },
    });
  });

  it('leaves no place of data out because its names look like those of a protocol', async () => {
    const mail = 'ada@example.com';
    const data = {
      ...{ uri: mail, text: '', blob: mail, raw: mail, taskId: mail, id: mail, status: '', progressToken: mail },
      file: { data: mail, mimeType: 'image/png', type: 'image' },
    };
    for (const [protocol, result] of [
      ['mcp', { content: [], structuredContent: data }],
      ['mcp', { content: [{ type: 'text', text: '', _meta: data }] }],
      ['a2a', { task: { id: 't', status: { state: 'x' }, artifacts: [{ artifactId: 'a', parts: [{ data }] }] } }],
    ] as const)
      expect(JSON.stringify(await shown(plugin, result as never, callOf({ protocol })))).not.toContain(mail);
  });

  it('finds secrets of any length', async () => {
    const long = 'a1'.repeat(3_000_000);
    for (const start of ['password=', 'Bearer ', 'sk-', '{"password":"'])
      expect((await redact(`${start}${long}`)).length, start).toBeLessThan(40);
  });

  it('looks into text in base64, and into no other file', async () => {
    const base64 = (text: string): string => Buffer.from(text).toString('base64');
    const [blob, hidden] = [base64('to ada@example.com ü'), base64('to [redacted:email] ü')];
    const file = (data: string): JsonObject => ({
      content: [
        { type: 'resource', resource: { uri: 'x:y', mimeType: 'application/octet-stream', blob: data } },
        { type: 'image', mimeType: 'image/svg+xml', data },
      ],
    });
    expect(await shown(plugin, file(blob))).toEqual(file(hidden));
    const part = (raw: string) => ({ message: { messageId: 'm', parts: [{ raw, mediaType: 'text/plain' }] } });
    expect(await shown(plugin, part(blob), callOf({ protocol: 'a2a' }))).toEqual(part(hidden));
    expect(await shown(plugin, file('ada@example.com'))).toEqual(file('[redacted:email]'));
  });

  it('redacts lists, pairs and numbers of secrets, and what is nested deeper than it looks', async () => {
    let deep: JsonObject = { mail: 'ada@example.com' };
    for (let level = 0; level < 300; level++) deep = { deep };
    const given = {
      ...{ passwords: ['a', 'b'], password: 123_456, tokens: 12, secrets: [] },
      env: [
        { name: 'DB_PASSWORD', value: 'abc' },
        { key: 'USER', value: 'ada' },
      ],
      headers: { Authorization: 'abc', 'Set-Cookie': 'abc' },
      deep,
    };
    const secret = '[redacted:secret]';
    const { structuredContent } = await shown(plugin, { content: [], structuredContent: given });
    expect(structuredContent).toMatchObject({
      ...{ passwords: [secret, secret], password: secret, tokens: 12, secrets: [] },
      env: [
        { name: 'DB_PASSWORD', value: secret },
        { key: 'USER', value: 'ada' },
      ],
      headers: { Authorization: secret, 'Set-Cookie': secret },
    });
    expect(JSON.stringify(structuredContent)).not.toContain('ada@example.com');
  });

  it('keeps every member, also if its name looks like one that the redaction made', async () => {
    const given = { 'a@example.com': 1, 'b@example.com': 2, '[redacted:email] 2': 3, '[redacted:email]': 4 };
    const { structuredContent } = await shown(plugin, { content: [], structuredContent: given });
    expect(Object.values(structuredContent as JsonObject)).toEqual([1, 2, 3, 4]);
  });

  it('redacts the texts of lists, and leaves what a client has to send', async () => {
    const mail = 'ada@example.com';
    const tool = {
      name: `s__${mail}`,
      description: `ask ${mail}`,
      inputSchema: {
        properties: { [mail]: { description: mail, enum: [mail], default: mail }, password: { type: 'string' } },
        required: [mail],
      },
      _meta: { owner: mail },
    };
    const hidden = '[redacted:email]';
    const items: ListItem[] = [{ server: 's', name: mail, item: tool }];
    expect((await plugin.onList?.(callOf({ method: 'tools/list' }), items))?.items[0]?.item).toEqual({
      name: `s__${mail}`,
      description: `ask ${hidden}`,
      inputSchema: {
        properties: { [mail]: { description: hidden, enum: [mail], default: hidden }, password: { type: 'string' } },
        required: [mail],
      },
      _meta: { owner: hidden },
    });
    const resource = { uri: `x:${mail}`, name: 'x', description: 'plain' };
    const same: ListItem[] = [{ server: 's', name: resource.uri, item: resource }];
    expect(await plugin.onList?.(callOf({ method: 'resources/list' }), same)).toBeUndefined();
  });

  it('takes time linear in the length of hostile texts', async () => {
    const size = 80_000;
    // Processor time of the shortest of three: other programs use the processor too.
    const time = async (text: string): Promise<number> => {
      let shortest = Number.POSITIVE_INFINITY;
      for (let turn = 0; turn < 3; turn++) {
        const before = process.cpuUsage();
        await redact(text);
        const { user, system } = process.cpuUsage(before);
        shortest = Math.min(shortest, (user + system) / 1_000);
      }
      return shortest;
    };
    const units = [
      ...['1', '1 ', '1.', '4111 ', 'a', 'a.', 'a.a.a.a@', `${'a.'.repeat(30)}@`, 'a@a.', '@', '%40', 'a.%40', '+1'],
      ...['AB12 ', 'DE12ABCD', 'eyJ', 'eyJ-', 'eyJaaaaaaaa.', 'Zm9v', '://a:', '://a', 'a:/', 'sk-', 'Basic a'],
      ...[
        'token',
        'token=',
        'token="',
        'token="\\\\',
        'token\\":\\"\\\\',
        'password:',
        '<',
        '<a:token ',
        '&#',
        '\\u00',
      ],
      ...[
        '-----BEGIN PRIVATE KEY-----',
        '-----BEGIN ',
        '-----END ',
        'PRIVATE KEY',
        'Cookie: ',
        'a=',
        '１',
        '\u200b',
        '٤',
      ],
      ...['Authorization: ', 'ACME-', '\u0301\u0323', '\\"'],
    ];
    for (const unit of units)
      for (const [start, end] of [
        ['', '!'],
        ['token="', ' a@'],
      ] as const) {
        const text = (length: number): string => `${start}${unit.repeat(Math.ceil(length / unit.length))}${end}`;
        // Four times the text; a quadratic pattern takes sixteen times as long. Short times say nothing.
        const ratio = (await time(text(size))) / Math.max(4, await time(text(size / 4)));
        expect(ratio, JSON.stringify([start, unit, end])).toBeLessThan(9);
      }
  });
});

const KEYRING = { active: { id: 'k', key: Buffer.alloc(32, 7) }, find: () => Buffer.alloc(32, 7) };

describe('size-governor', () => {
  let time = 0;
  const now = () => time;
  const seal = new Seal(KEYRING, now);
  const storeOf = (more: Partial<ConstructorParameters<typeof KeptResults>[0]> = {}): KeptResults =>
    new KeptResults({
      ...{ seal, cluster: ALONE, name: 'g', ttl: 1_000, perCaller: 100_000, inAll: 150_000, now },
      ...more,
    });
  const governorOf = (results: KeptResults): Plugin => sizeGovernor({ limit: 1_000, preview: 20, results });
  const linksIn = (result: JsonObject): string[] =>
    (result['content'] as { type: string; uri: string }[]).flatMap(({ type, uri }) =>
      type === 'resource_link' ? [uri] : [],
    );
  const read = (plugin: Plugin, uri: string, caller = 'ada') =>
    plugin.onRequest?.(callOf({ method: 'resources/read', kind: 'catalog', params: { uri } }, caller));

  it('passes small results, and shortens large ones to a preview and a link for their caller', async () => {
    const plugin = governorOf(storeOf());
    expect(await plugin.onResponse?.(callOf(), LazyResponse.of(said('small')))).toBeUndefined();
    const long = 'word '.repeat(1_000);
    const result = await shown(plugin, { ...said(long), isError: false });
    const [uri] = linksIn(result);
    expect(JSON.stringify(result).length).toBeLessThan(1_000);
    expect(result['content']).toMatchObject([
      { type: 'text', text: expect.stringContaining('word word word word') as string },
      { type: 'resource_link', mimeType: 'text/plain', size: 5_000 },
    ]);
    expect(result['isError']).toBe(false);
    expect(await read(plugin, uri!)).toEqual({
      reply: { contents: [{ uri, mimeType: 'text/plain', text: long }] },
    });
    expect(await read(plugin, uri!, 'bob')).toBeUndefined();
    expect(await read(plugin, `${uri}x`)).toBeUndefined();
    expect(await read(plugin, `${RESULT_SCHEME}:///`)).toBeUndefined();
    time += 1_001;
    expect(await read(plugin, uri!)).toBeUndefined();
  });

  it('keeps small blocks, and links images, files and structured content', async () => {
    const plugin = governorOf(storeOf());
    const data = 'A'.repeat(4_000);
    const result = await shown(plugin, {
      content: [
        { type: 'text', text: 'small' },
        { type: 'image', data, mimeType: 'image/png' },
        { type: 'resource', resource: { uri: 'x:y', mimeType: 'text/csv', text: data } },
      ],
      structuredContent: { rows: data },
    });
    const links = linksIn(result);
    expect((result['content'] as JsonValue[])[0]).toEqual({ type: 'text', text: 'small' });
    expect(result['structuredContent']).toBeUndefined();
    const contents = await Promise.all(links.map((uri) => read(plugin, uri)));
    expect(contents).toMatchObject([
      { reply: { contents: [{ mimeType: 'image/png', blob: data }] } },
      { reply: { contents: [{ mimeType: 'text/csv', text: data }] } },
      { reply: { contents: [{ mimeType: 'application/json', text: JSON.stringify({ rows: data }) }] } },
    ]);
  });

  it('gives a link only to credentials of the caller that see the tool and have the scopes of its call', async () => {
    const plugin = governorOf(storeOf());
    const credential = (scopes: readonly string[], visible = true): PluginCall => {
      const call = callOf();
      const sees = async (server: string, tool: string) => visible && server === 'files' && tool === 'read';
      return { ...call, caller: { ...call.caller, scopes }, sees };
    };
    const [uri] = linksIn(await shown(plugin, said('word '.repeat(1_000)), credential(['files'])));
    const readBy = (call: PluginCall) =>
      plugin.onRequest?.({ ...call, method: 'resources/read', kind: 'catalog', params: { uri } });
    expect(await readBy(credential(['files', 'more']))).toHaveProperty('reply');
    expect(await readBy(credential(['files'], false))).toBeUndefined();
    expect(await readBy(credential(['more']))).toBeUndefined();
  });

  it('gives thousands of blocks a few links', async () => {
    const plugin = governorOf(storeOf());
    const block = { type: 'image', data: 'A'.repeat(900), mimeType: 'image/png' };
    const result = await shown(plugin, { content: Array.from({ length: 60 }, () => block) });
    expect(linksIn(result).length).toBeLessThanOrEqual(17);
  });

  it('bounds the bytes of a caller and of all, and no caller displaces the results of another', async () => {
    const store = storeOf({ perCaller: 10_000, inAll: 17_000 });
    const text = (size: number): JsonObject => ({ text: 'x'.repeat(size) });
    const first = store.keep('ada', ORIGIN, text(6_000))!;
    const second = store.keep('ada', ORIGIN, text(6_000))!;
    expect(await store.read('ada', first)).toBeUndefined();
    expect(await store.read('ada', second)).toBeDefined();
    const other = store.keep('bob', ORIGIN, text(8_000))!;
    expect(store.size).toBeLessThanOrEqual(17_000);
    expect(store.keep('eve', ORIGIN, text(8_000))).toBeUndefined();
    expect(store.keep('eve', ORIGIN, text(20_000))).toBeUndefined();
    expect(await store.read('bob', other)).toBeDefined();
    expect(await store.read('ada', second)).toBeDefined();
  });

  it('says that a result is lost if there is no room for it', async () => {
    const plugin = governorOf(storeOf({ perCaller: 2_000 }));
    const result = await shown(plugin, said('x'.repeat(9_000)));
    expect(linksIn(result)).toEqual([]);
    expect(JSON.stringify(result)).toContain('no room');
  });

  it('reads at another replica', async () => {
    const handlers = new Map<string, Parameters<Cluster['handle']>[1]>();
    const clusterOf = (self: string): Cluster => ({
      ...ALONE,
      self,
      handle: (subject, handler) => {
        handlers.set(`${self} ${subject}`, handler);
        return () => {};
      },
      ask: async (replica, subject, payload) => handlers.get(`${replica} ${subject}`)!(payload, {} as never),
    });
    const [one, two] = [storeOf({ cluster: clusterOf('one') }), storeOf({ cluster: clusterOf('two') })];
    const uri = one.keep('ada', ORIGIN, { text: 'here' })!;
    expect(await two.read('ada', uri)).toEqual({ contents: { text: 'here' }, origin: ORIGIN });
    expect(await two.read('bob', uri)).toBeUndefined();
  });

  it('removes the promise of structured content from lists', async () => {
    const item: ListItem = { server: 's', name: 't', item: { name: 's__t', outputSchema: { type: 'object' } } };
    const decision = await governorOf(storeOf()).onList?.(callOf({ method: 'tools/list' }), [item]);
    expect(decision?.items[0]?.item).toEqual({ name: 's__t' });
  });
});

describe('result-cache', () => {
  let time = 1_000;
  const cacheOf = (more: Partial<Parameters<typeof resultCache>[0]> = {}): Plugin =>
    resultCache({
      ...{ ttl: 1_000, shared: false, perCaller: 10_000, inAll: 20_000, now: () => time },
      ...{ cluster: ALONE, name: 'cache', ...more },
    });
  const ask = async (plugin: Plugin, call: PluginCall): Promise<JsonObject | undefined> => {
    const decision = await plugin.onRequest?.(call);
    return decision && 'reply' in decision ? decision.reply : undefined;
  };
  const read = (more: Partial<PluginCall> = {}, caller = 'ada') => callOf({ began: time, ...more }, caller);

  it('answers a repeated call of the same caller until it is too old', async () => {
    const plugin = cacheOf();
    expect(await ask(plugin, read())).toBeUndefined();
    await plugin.onResponse?.(read(), LazyResponse.of(said('one')));
    const found = await ask(plugin, read({ params: { arguments: { path: '/a' }, name: 'read' } }));
    expect(found).toEqual({ ...said('one'), _meta: { 'parley/cachedForSeconds': 0 } });
    expect(await ask(plugin, read({}, 'bob'))).toBeUndefined();
    expect(await ask(plugin, read({ params: { name: 'read', arguments: { path: '/b' } } }))).toBeUndefined();
    time += 1_001;
    expect(await ask(plugin, read())).toBeUndefined();
  });

  it('shares results if the operator says so', async () => {
    const plugin = cacheOf({ shared: true });
    await plugin.onResponse?.(read(), LazyResponse.of(said('one')));
    expect(await ask(plugin, read({}, 'bob'))).toMatchObject(said('one'));
  });

  it('never shares results between tenants', async () => {
    const plugin = cacheOf({ shared: true });
    const of = (tenant: string): PluginCall => {
      const call = read();
      return { ...call, caller: { ...call.caller, tenant } };
    };
    await plugin.onResponse?.(of('red'), LazyResponse.of(said('red')));
    expect(await ask(plugin, of('blue'))).toBeUndefined();
    expect(await ask(plugin, read())).toBeUndefined();
    expect(await ask(plugin, of('red'))).toMatchObject(said('red'));
  });

  it('forgets the results of a server when another replica may have changed something there', async () => {
    const listeners: ((payload: JsonValue) => void)[] = [];
    const told: JsonValue[] = [];
    const cluster = {
      tell: async (_: string, payload: JsonValue) => {
        told.push(payload);
        for (const listener of listeners) listener(payload);
      },
      onTold: (_: string, listener: (payload: JsonValue) => void) => {
        listeners.push(listener);
        return () => {};
      },
    } as unknown as Cluster;
    const [here, there] = [cacheOf({ cluster }), cacheOf({ cluster })];
    await there.onResponse?.(read(), LazyResponse.of(said('one')));
    await there.onResponse?.(read({ server: 'other' }), LazyResponse.of(said('other')));
    time += 1;
    for (let call = 0; call < 50; call++) {
      await here.onRequest?.(read({ name: 'write', tool: { name: 'write' } }));
      await here.onResponse?.(read({ name: 'write', tool: { name: 'write' } }), LazyResponse.of(said('done')));
    }
    expect(await ask(there, read())).toBeUndefined();
    expect(await ask(there, read({ server: 'other' }))).toMatchObject(said('other'));
    // The last call is told too, and a hundred calls need few messages.
    await expect.poll(() => told.length).toBeGreaterThan(1);
    expect(told.length).toBeLessThan(20);
    expect(new Set(told.map(String))).toEqual(new Set(['files']));
    for (const plugin of [here, there]) await plugin.close?.();
  });

  it.each([true, false])('gives no result for one account to another (shared: %s)', async (shared) => {
    const plugin = cacheOf({ shared });
    await plugin.onResponse?.(read({ account: 'one' }), LazyResponse.of(said('of one')));
    expect(await ask(plugin, read({ account: 'two' }))).toBeUndefined();
    expect(await ask(plugin, read())).toBeUndefined();
    expect(await ask(plugin, read({ account: 'one' }))).toMatchObject(said('of one'));
  });

  it('keeps no result for a number that parsing may have changed', async () => {
    const plugin = cacheOf();
    const withId = (id: string) => read({ params: JSON.parse(`{"arguments":{"ids":[{"id":${id}}]}}`) as JsonObject });
    for (const id of ['9007199254740993', '-9007199254740993', '1e400']) {
      await plugin.onResponse?.(withId(id), LazyResponse.of(said(id)));
      expect(await ask(plugin, withId(id))).toBeUndefined();
    }
    await plugin.onResponse?.(withId('0.5'), LazyResponse.of(said('half')));
    expect(await ask(plugin, withId('0.5'))).toMatchObject(said('half'));
  });

  it('keeps no result of a tool that may change something, and none of an error', async () => {
    const plugin = cacheOf();
    for (const annotations of [undefined, {}, { readOnlyHint: true, destructiveHint: true }]) {
      const call = read({ tool: { name: 'read', ...(annotations && { annotations }) } });
      await plugin.onResponse?.(call, LazyResponse.of(said('one')));
      expect(await ask(plugin, call)).toBeUndefined();
    }
    await plugin.onResponse?.(read(), LazyResponse.of({ ...said('no'), isError: true }));
    expect(await ask(plugin, read())).toBeUndefined();
  });

  it('forgets the results of a server when a tool may have changed something there', async () => {
    const plugin = cacheOf();
    await plugin.onResponse?.(read(), LazyResponse.of(said('one')));
    await plugin.onResponse?.(read({ server: 'other' }), LazyResponse.of(said('other')));
    const began = time;
    time += 1;
    await plugin.onRequest?.(read({ name: 'write', tool: { name: 'write' } }, 'bob'));
    expect(await ask(plugin, read())).toBeUndefined();
    expect(await ask(plugin, read({ server: 'other' }))).toMatchObject(said('other'));
    // A read that began before the change may have an old result.
    await plugin.onResponse?.(read({ began }), LazyResponse.of(said('old')));
    expect(await ask(plugin, read())).toBeUndefined();
  });

  it('bounds its bytes', async () => {
    const plugin = cacheOf();
    const store = (path: string, caller: string) =>
      plugin.onResponse?.(
        read({ params: { name: 'read', arguments: { path } } }, caller),
        LazyResponse.of(said('x'.repeat(6_000))),
      );
    const has = async (path: string, caller: string): Promise<boolean> =>
      (await ask(plugin, read({ params: { name: 'read', arguments: { path } } }, caller))) !== undefined;
    await store('/1', 'ada');
    await store('/2', 'ada');
    expect([await has('/1', 'ada'), await has('/2', 'ada')]).toEqual([false, true]);
    await store('/1', 'bob');
    await store('/1', 'eve');
    await store('/1', 'zoe');
    expect([await has('/2', 'ada'), await has('/1', 'bob'), await has('/1', 'zoe')]).toEqual([true, true, false]);
  });
});

it('descriptions rewrites the tools that its first matching rule names', async () => {
  const plugin = descriptions([
    { tool: 'files__read', title: 'Read', description: 'Reads a file.', after: 'Only below /srv.' },
    { tool: 'files__*', before: 'Careful:' },
  ]);
  const items: ListItem[] = ['read', 'write', 'other'].map((name) => ({
    server: name === 'other' ? 'web' : 'files',
    name,
    item: { name: `x__${name}`, description: `does ${name}` },
  }));
  const decision = await plugin.onList?.(callOf({ method: 'tools/list' }), items);
  expect(decision?.items.map(({ item }) => item)).toEqual([
    { name: 'x__read', title: 'Read', description: 'Reads a file.\nOnly below /srv.' },
    { name: 'x__write', description: 'Careful:\ndoes write' },
    { name: 'x__other', description: 'does other' },
  ]);
  expect(await plugin.onList?.(callOf({ method: 'prompts/list' }), items)).toBeUndefined();
});
