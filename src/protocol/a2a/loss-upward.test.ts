import { expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../jsonrpc/raw.js';
import { dialect } from './index.js';
import { LOSSES_FROM_0_3, type Noun } from './loss-register.js';

const old = dialect('0.3');
const card = { protocolVersion: '0.3.0', name: 'n', description: 'd', url: 'https://a.example', version: '1' };
const configuration = (wire: JsonObject): JsonObject => {
  const message = { kind: 'message', messageId: 'm', role: 'user', parts: [{ kind: 'text', text: 'x' }] };
  const read = old.readRequest('SendMessage', { message, configuration: wire });
  return old.writeRequest('SendMessage', read)['configuration'] as JsonObject;
};
const push = (wire: JsonObject): JsonValue => {
  const operation = 'CreateTaskPushNotificationConfig';
  const read = old.readRequest(operation, { taskId: 't', pushNotificationConfig: { url: 'u', ...wire } });
  return (old.writeResult(operation, read) as { pushNotificationConfig: JsonObject }).pushNotificationConfig;
};

/** For each member in the register: the value sent from 0.3 to 1.0, and the value that returns. */
const TRIPS: Partial<Record<Noun, Record<string, () => [given: JsonValue, back: JsonValue | undefined]>>> = {
  statusUpdate: {
    final: () => {
      const given = { kind: 'status-update', taskId: 't', contextId: 'c', status: { state: 'working' }, final: true };
      const [event] = old.eventReader({ taskId: 't' }).read(given);
      return [given, old.eventWriter({}).write(event ?? {}, false)[0]];
    },
  },
  push: {
    authentication: () => {
      const authentication = { schemes: ['Digest', 'Bearer'], credentials: 'x' };
      return [{ url: 'u', authentication }, push({ authentication })];
    },
  },
  configuration: {
    blocking: () => [{ acceptedOutputModes: [] }, configuration({ acceptedOutputModes: [] })],
  },
  task: {
    status: () => {
      const given = {
        kind: 'task',
        id: 't',
        contextId: 'c',
        status: { state: 'working', timestamp: '2026-01-02T03:04:05' },
      };
      return [given, old.writeResult('GetTask', old.readResult('GetTask', given))];
    },
  },
  card: {
    capabilities: () => {
      const given = { streaming: true, pushNotifications: false, stateTransitionHistory: true };
      return [given, old.writeCard(old.readCard({ ...card, capabilities: given }))['capabilities']];
    },
    signatures: () => {
      const given = [{ protected: 'p', signature: 's' }];
      return [given, old.writeCard(old.readCard({ ...card, signatures: given }))['signatures']];
    },
  },
};

it.each(LOSSES_FROM_0_3.map(({ noun, member, why }) => [noun, member, why] as const))(
  '0.3 -> 1.0 -> 0.3: %s.%s (%s)',
  (noun, member) => {
    const [given, back] = TRIPS[noun]?.[member]?.() ?? ['no trip', 'no trip'];
    expect(back).not.toEqual(given);
  },
);
