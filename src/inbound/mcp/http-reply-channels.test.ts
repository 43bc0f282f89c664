import { expect, it } from 'vitest';
import type { InboundResponse } from '../http/response.js';
import { SessionReplyChannel } from './http-reply-channels.js';
import { EventLog } from './session/event-log.js';
import type { SharedStreams } from './session/shared-streams.js';

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** The reply to a request whose stream becomes known to other replicas when `share` is called. */
function reply(): { readonly channel: SessionReplyChannel; readonly sent: string[]; share(): void } {
  const sent: string[] = [];
  const res = {
    unread: 0,
    open: () => sent.push('head'),
    write: (chunk: string | readonly Buffer[]) =>
      sent.push(typeof chunk === 'string' ? chunk : Buffer.concat(chunk).toString()),
    end: () => sent.push('end'),
    onClose: () => {},
  } as unknown as InboundResponse;
  let share = (): void => {};
  const opened = new Promise<void>((resolve) => {
    share = resolve;
  });
  const shared: SharedStreams = {
    prefix: () => 'me-0-',
    open: () => ({ opened, append: () => opened.then(() => true), finish: () => opened.then(() => true) }),
    find: () => Promise.resolve(undefined),
  };
  const accepts = { json: true, stream: true, html: false };
  return {
    channel: new SessionReplyChannel('r', '192.0.2.1', res, [], accepts, new EventLog('s', shared), true, 1),
    sent,
    share,
  };
}

it('sends no event id before other replicas can find the stream', async () => {
  const { channel, sent, share } = reply();
  channel.send(Buffer.from('{"progress":1}'));
  await settled();
  expect(sent).toEqual(['head']);
  share();
  await settled();
  expect(sent.map((text) => /id: (\S+)/.exec(text)?.[1])).toEqual([undefined, 'me-0-n1-r0.1', 'me-0-n1-r0.2']);
  channel.finish([Buffer.from('{"id":1}')], 200, []);
  await settled();
  expect(sent.slice(3)).toEqual([expect.stringContaining('{"id":1}'), 'end']);
});

it('releases a client only after it has an event id to resume from', async () => {
  const { channel, sent, share } = reply();
  channel.poll(50);
  await settled();
  expect(sent).toEqual(['head']);
  share();
  await settled();
  expect(sent).toEqual([
    'head',
    expect.stringContaining('id: me-0-n1-r0.1\n'),
    expect.stringContaining('retry: 50'),
    'end',
  ]);
});
