/** Data of a request outside of its body: extensions, versions, credentials, tenants. */
import { EXTENSION, requestWith } from '../../fixtures/a2a/agent.js';
import { assert, type Case, expectError, mark, refused, say, taskOf } from '../case.js';
import { ADA, AGENT_KEY, STRICT } from '../testbed.js';

export const HEADERS: readonly Case[] = [
  {
    name: 'the agent gets its own credentials, never those of the caller',
    ids: ['G-60', 'G-61'],
    run: async ({ connect, agent, row }) => {
      const client = await connect(row.binding === 'grpc' ? {} : { headers: { cookie: 'session=secret' } });
      const word = mark();
      await client.send(say(`echo ${word}`));
      const seen = requestWith(agent, word);
      assert.ok(seen, 'the request did not reach the agent');
      assert.equal(seen.headers['x-fixture-key'], AGENT_KEY);
      assert.ok(!JSON.stringify(seen).includes(ADA), 'the token of the caller reached the agent');
      assert.ok(!JSON.stringify(seen).includes('session=secret'), 'a cookie of the caller reached the agent');
      client.close();
    },
  },
  {
    name: 'requests name the version of the agent',
    ids: ['C-1', 'S-13'],
    applies: (_, column) => column.version === '1.0',
    run: async ({ client, agent }) => {
      const word = mark();
      await client.send(say(`echo ${word}`));
      assert.equal(requestWith(agent, word)?.headers['a2a-version'], '1.0');
    },
  },
  {
    name: 'extensions are requested and used end to end',
    ids: ['S-14', 'C-15', 'S-13'],
    applies: (row, column) => row.version !== '0.1' && column.version !== '0.1',
    run: async ({ connect, agent, row, column }) => {
      const client = await connect({ extensions: [EXTENSION] });
      const word = mark();
      await client.send(say(`echo ${word}`));
      const seen = requestWith(agent, word);
      const asked = seen?.headers['a2a-extensions'] ?? seen?.headers['x-a2a-extensions'];
      assert.ok(asked?.includes(EXTENSION), `the agent was asked for ${asked}`);
      // Agents with the SDKs of 0.2 and 0.3 do not report the extensions that they used.
      if (column.version !== '1.0') return;
      const { headers } = await client.wire();
      const used = headers[row.version === '1.0' ? 'a2a-extensions' : 'x-a2a-extensions'];
      assert.ok(used?.includes(EXTENSION), `the answer names the extensions ${used}`);
      client.close();
    },
  },
  {
    name: 'an extension that is not requested is not used',
    ids: ['C-15'],
    applies: (row, column) => row.version !== '0.1' && column.version !== '0.1',
    run: async ({ client, agent }) => {
      const word = mark();
      await client.send(say(`echo ${word}`));
      const headers = requestWith(agent, word)?.headers ?? {};
      assert.ok(!`${headers['a2a-extensions']}${headers['x-a2a-extensions']}`.includes(EXTENSION));
    },
  },
  {
    name: 'a required extension must be requested',
    ids: ['S-15', 'C-15'],
    once: true,
    run: async ({ testbed, row }) => {
      const without = await testbed.connect(row, STRICT.name);
      await expectError(without, 'EXTENSION_SUPPORT_REQUIRED', () => without.send(say('echo')));
      // A 0.1 client cannot request extensions.
      if (row.version === '0.1') return;
      const asking = await testbed.connect(row, STRICT.name, { extensions: [EXTENSION] });
      assert.equal(taskOf(await asking.send(say('echo'))).state, 'completed');
    },
  },
  {
    name: 'a gRPC call for an unknown agent',
    ids: ['G-1', 'S-73'],
    once: true,
    applies: (row) => row.binding === 'grpc' && row.version === '0.3',
    run: async ({ connect }) => {
      const client = await connect({ headers: { 'x-parley-agent': 'nobody' } });
      assert.equal((await refused(client, () => client.send(say('echo')))).grpc, 5);
    },
  },
  {
    name: "every request contains the tenant of the agent's interface",
    ids: ['C-2'],
    applies: (_, column) => column.tenant !== undefined,
    run: async ({ client, agent, column }) => {
      const word = mark();
      const { id } = taskOf(await client.send(say(`echo ${word}`)));
      await client.get(id);
      const seen = requestWith(agent, word);
      const named = `${seen?.what} ${JSON.stringify(seen?.body)}`;
      assert.ok(named.includes(column.tenant!), `the request to the agent does not name the tenant: ${seen?.what}`);
    },
  },
];
