import { expect, test, vi } from 'vitest';
import type { Admission } from '../../../core/admission.js';
import { type Caller, GATEWAY, principalOf } from '../../../core/caller.js';
import { ALL_SERVERS, type Deliver, type Gateway } from '../../../core/gateway.js';
import { ListChanges } from './list-changes.js';

const callerOf = (subject: string): Caller => ({ ...GATEWAY, principal: principalOf({ subject }) });
const CHANGED = { method: 'notifications/tools/list_changed', params: {} };

function feedsOf(admission: Pick<Admission, 'sees'>) {
  const opened: Deliver[] = [];
  const listen: Gateway['listen'] = async (_, __, ___, deliver) => {
    opened.push(deliver);
    return { honoured: {}, close: () => {} };
  };
  const subscriptions = new ListChanges({ listen } as Gateway, admission);
  const follow = (subject: string) => {
    const heard: string[] = [];
    const stop = subscriptions.follow(ALL_SERVERS, {
      caller: () => callerOf(subject),
      hear: ({ method }) => void heard.push(method),
    });
    return { heard, stop };
  };
  return { opened, follow };
}

test('one subscription serves all sessions, each with the servers that its caller may see', async () => {
  const { opened, follow } = feedsOf({
    sees: async ({ principal }, { server }) => principal.subject === 'ann' || server !== 'secret',
  });
  const [ann, bob] = [follow('ann'), follow('bob')];
  expect(opened).toHaveLength(1);
  opened[0]!(CHANGED, 'secret');
  await vi.waitFor(() => expect(ann.heard).toHaveLength(1));
  opened[0]!(CHANGED, 'open');
  await vi.waitFor(() => expect([ann.heard.length, bob.heard.length]).toEqual([2, 1]));
});

test('a session whose admission check fails or that has ended gets no notification', async () => {
  const { opened, follow } = feedsOf({
    sees: ({ principal }) => {
      if (principal.subject === 'bob') throw new Error('the policy is broken');
      return true;
    },
  });
  const [ann, bob, gone] = [follow('ann'), follow('bob'), follow('gone')];
  opened[0]!(CHANGED, 'a');
  gone.stop();
  await vi.waitFor(() => expect(ann.heard).toHaveLength(1));
  expect([bob.heard, gone.heard]).toEqual([[], []]);
});

test('without hidden servers a session is notified synchronously', () => {
  const { opened, follow } = feedsOf({});
  const { heard } = follow('ann');
  opened[0]!(CHANGED, 'a');
  expect(heard).toHaveLength(1);
});

test('S27: a change that concerns one caller is announced to the sessions of this caller only', () => {
  const { opened, follow } = feedsOf({});
  const [ann, bob] = [follow('ann'), follow('bob')];
  opened[0]!(CHANGED, 'notes', 'bob');
  expect([ann.heard.length, bob.heard.length]).toEqual([0, 1]);
});
