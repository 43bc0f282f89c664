/** Official clients of three SDK generations at the endpoint. */

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type AgentCard, Role, TaskState } from '@a2a-js/sdk';
import { JsonRpcTransportFactory, RestTransportFactory, type Transport } from '@a2a-js/sdk/client';
import { A2AClient } from 'a2a-sdk-0.2/client';
import { JsonRpcTransport, RestTransport, TaskNotFoundError } from 'a2a-sdk-0.3/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Stand } from '../../../test/support/a2a-endpoint.js';

let stand: Stand;
beforeAll(async () => {
  stand = await Stand.open();
});
afterAll(() => stand.close());

async function all<T>(events: AsyncIterable<T>): Promise<T[]> {
  const got: T[] = [];
  for await (const event of events) got.push(event);
  return got;
}

describe.each([
  ['JSONRPC', () => new JsonRpcTransportFactory()],
  ['HTTP+JSON', () => new RestTransportFactory()],
] as const)('S-75: the 1.x client by %s', (protocolBinding, factory) => {
  const options = { serviceParameters: { 'A2A-Version': '1.0' } };
  let client: Transport;
  beforeAll(async () => {
    const url = `${stand.url}/a2a/echo`;
    const offered = { url, protocolBinding, protocolVersion: '1.0', tenant: '' };
    client = await factory().create(url, { supportedInterfaces: [offered] } as unknown as AgentCard);
  });
  const message = {
    messageId: 'm1',
    contextId: '',
    taskId: '',
    role: Role.ROLE_USER,
    parts: [{ content: { $case: 'text', value: 'hello' }, metadata: undefined, filename: '', mediaType: '' }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
  const send = { tenant: '', message, configuration: undefined, metadata: undefined } as never;

  it('sends, gets, lists and cancels', async () => {
    expect(await client.sendMessage(send, options)).toMatchObject({ id: 't1' });
    expect(await client.getTask({ tenant: '', id: 't1', historyLength: 3 } as never, options)).toMatchObject({
      status: { state: TaskState.TASK_STATE_COMPLETED },
    });
    expect(stand.last.request.value).toMatchObject({ id: 't1', historyLength: 3 });
    expect(await client.cancelTask({ tenant: '', id: 't1' } as never, options)).toMatchObject({ id: 't1' });
    expect(
      await client.listTasks(
        { tenant: '', contextId: '', status: TaskState.TASK_STATE_UNSPECIFIED, pageToken: '' } as never,
        options,
      ),
    ).toMatchObject({
      tasks: [{ id: 't1' }],
    });
    expect(stand.last.dialect).toBe('1.0');
  });

  it('S-43, S-44: streams and subscribes', async () => {
    expect(await all(client.sendMessageStream(send, options))).toHaveLength(4);
    expect(await all(client.resubscribeTask({ tenant: '', id: 't1' } as never, options))).toHaveLength(2);
  });

  it('S-70: recognises the errors', async () => {
    const lost = { tenant: '', id: 'nobody' } as never;
    await expect(client.getTask(lost, options)).rejects.toMatchObject({ name: 'TaskNotFoundError' });
    await expect(all(client.resubscribeTask(lost, options))).rejects.toMatchObject({ name: 'TaskNotFoundError' });
    await expect(
      client.getTask({ tenant: '', id: 't1' } as never, { serviceParameters: { 'A2A-Version': '9.0' } }),
    ).rejects.toMatchObject({ name: 'VersionNotSupportedError' });
  });

  it('manages push configurations and reads the extended card', async () => {
    const config = { tenant: '', taskId: 't1', id: 'p1', url: 'https://client.example/hook', token: '' };
    expect(await client.createTaskPushNotificationConfig(config as never, options)).toMatchObject({ id: 'p1' });
    const named = { tenant: '', taskId: 't1', id: 'p1' } as never;
    expect(await client.getTaskPushNotificationConfig(named, options)).toMatchObject({ taskId: 't1' });
    expect(
      await client.listTaskPushNotificationConfig(
        { tenant: '', taskId: 't1', pageSize: 0, pageToken: '' } as never,
        options,
      ),
    ).toMatchObject({ configs: [{ id: 'p1' }] });
    await client.deleteTaskPushNotificationConfig(named, options);
    expect(stand.last.operation).toBe('DeleteTaskPushNotificationConfig');
    expect(await client.getExtendedAgentCard({ tenant: '' } as never, options)).toMatchObject({ name: 'echo' });
  });
});

const older = {
  message: {
    kind: 'message' as const,
    messageId: 'm1',
    role: 'user' as const,
    parts: [{ kind: 'text' as const, text: 'hello' }],
  },
};

describe.each([
  ['JSONRPC', () => new JsonRpcTransport({ endpoint: `${stand.url}/a2a/echo` })],
  ['HTTP+JSON', () => new RestTransport({ endpoint: `${stand.url}/a2a/echo` })],
] as const)('S-75: the 0.3 client by %s', (_binding, make) => {
  it('sends, gets and cancels', async () => {
    const client = make();
    expect(await client.sendMessage(older)).toMatchObject({ kind: 'task', id: 't1', status: { state: 'completed' } });
    expect(await client.getTask({ id: 't1', historyLength: 3 })).toMatchObject({ id: 't1' });
    expect(await client.cancelTask({ id: 't1' })).toMatchObject({ status: { state: 'canceled' } });
    expect(stand.last.dialect).toMatch(/^0\.3/);
  });

  it('C-27, S-43: streams and subscribes', async () => {
    const events = await all(make().sendMessageStream(older));
    expect(events.map(({ kind }) => kind)).toEqual(['task', 'status-update', 'artifact-update', 'status-update']);
    expect(events.at(-1)).toMatchObject({ final: true });
    expect(await all(make().resubscribeTask({ id: 't1' }))).toHaveLength(2);
  });

  it('S-70, settled 5: recognises the errors, also in a stream', async () => {
    await expect(make().getTask({ id: 'nobody' })).rejects.toBeInstanceOf(TaskNotFoundError);
    await expect(all(make().resubscribeTask({ id: 'nobody' }))).rejects.toThrow('Task not found');
  });

  it('manages push configurations', async () => {
    const client = make();
    const pushNotificationConfig = { id: 'p1', url: 'https://client.example/hook' };
    expect(await client.setTaskPushNotificationConfig({ taskId: 't1', pushNotificationConfig })).toMatchObject({
      pushNotificationConfig: { url: 'https://client.example/hook' },
    });
    const named = { id: 't1', pushNotificationConfigId: 'p1' };
    expect(await client.getTaskPushNotificationConfig(named)).toMatchObject({ taskId: 't1' });
    expect(await client.listTaskPushNotificationConfig({ id: 't1' })).toHaveLength(1);
    await client.deleteTaskPushNotificationConfig(named);
    expect(stand.last.operation).toBe('DeleteTaskPushNotificationConfig');
  });
});

describe('S-75: the 0.2 client', () => {
  /** The 0.2 client requests a card first. */
  async function withClient(use: (client: A2AClient) => Promise<void>): Promise<void> {
    const server = createServer((_req, res) => {
      res.setHeader('content-type', 'application/json');
      res.end(JSON.stringify({ name: 'echo', url: `${stand.url}/a2a/echo/rpc`, capabilities: { streaming: true } }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    try {
      await use(new A2AClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
    } finally {
      server.closeAllConnections();
      server.close();
    }
  }

  it('sends, gets, cancels, streams and subscribes', () =>
    withClient(async (client) => {
      expect(await client.sendMessage(older)).toMatchObject({
        result: { kind: 'task', status: { state: 'completed' } },
      });
      expect(await client.getTask({ id: 't1' })).toMatchObject({ result: { id: 't1' } });
      expect(await client.cancelTask({ id: 't1' })).toMatchObject({ result: { status: { state: 'canceled' } } });
      const events = await all(client.sendMessageStream(older));
      expect(events.at(-1)).toMatchObject({ kind: 'status-update', final: true });
      expect(await all(client.resubscribeTask({ id: 't1' }))).toHaveLength(2);
    }));

  it('S-43: recognises the errors, also in a stream', () =>
    withClient(async (client) => {
      expect(await client.getTask({ id: 'nobody' })).toMatchObject({ error: { code: -32001 } });
      await expect(all(client.resubscribeTask({ id: 'nobody' }))).rejects.toThrow('-32001');
    }));
});
