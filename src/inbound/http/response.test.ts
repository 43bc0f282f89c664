import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { InboundResponse, type ResponseChannel } from './response.js';

/** A connection that is written to, and that takes at once what it is given. */
class Channel implements ResponseChannel {
  readonly bytes = new PassThrough({ highWaterMark: 10_000_000 });
  readonly socket = this.bytes as unknown as Socket;
  headOnly = false;
  old = false;
  persistent = true;
  readonly responses: boolean[] = [];

  common(keepAlive: boolean): string {
    return keepAlive ? 'Connection: keep-alive\r\n' : 'Connection: close\r\n';
  }

  responded(keepAlive: boolean): void {
    this.responses.push(keepAlive);
  }

  get text(): string {
    return (this.bytes.read() as Buffer | null)?.toString('latin1') ?? '';
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const written = async (channel: Channel): Promise<string> => {
  await turn();
  await turn();
  return channel.text;
};

describe('a response', () => {
  it('is its head and its body', async () => {
    const channel = new Channel();
    const res = new InboundResponse(channel);
    res.send(200, ['X-A', 'b', 'X-C', ''], [Buffer.from('\u00e9'), Buffer.from([0, 255])]);
    expect([res.begun, res.ended, res.closed]).toEqual([true, true, false]);
    expect(await written(channel)).toBe(
      'HTTP/1.1 200 OK\r\nX-A: b\r\nX-C: \r\nContent-Length: 4\r\nConnection: keep-alive\r\n\r\n\xc3\xa9\0\xff',
    );
    expect(channel.responses).toEqual([true]);
  });

  it('counts a text in bytes', async () => {
    const channel = new Channel();
    new InboundResponse(channel).sendText(200, [], '\u00e9\u{1f600}');
    expect(await written(channel)).toMatch(/\r\nContent-Length: 6\r\n.*\r\n\r\n\xc3\xa9\xf0\x9f\x98\x80$/s);
  });

  it.each([0, 1, 16 * 1024, 16 * 1024 + 1, 200_000])('has %i bytes where it was given so many', async (size) => {
    const channel = new Channel();
    const body = Buffer.alloc(size, 'abc\xff', 'latin1');
    new InboundResponse(channel).send(200, [], [body.subarray(0, 5), body.subarray(5)]);
    const text = await written(channel);
    expect(text).toContain(`\r\nContent-Length: ${size}\r\n`);
    expect(text.slice(text.indexOf('\r\n\r\n') + 4) === body.toString('latin1')).toBe(true);
    expect(channel.responses).toEqual([true]);
  });

  it('goes out once, whatever is said afterwards', async () => {
    const channel = new Channel();
    const res = new InboundResponse(channel);
    res.sendText(200, [], 'a');
    res.sendText(500, [], 'b');
    res.send(500, [], []);
    res.open(500, []);
    res.write('c');
    res.write([Buffer.from('d')]);
    res.end();
    expect(await written(channel)).toMatch(/^HTTP\/1\.1 200 .*\r\n\r\na$/s);
    expect(channel.responses).toEqual([true]);
  });

  it('says nothing before it was begun', async () => {
    const channel = new Channel();
    const res = new InboundResponse(channel);
    res.write('a');
    res.write([Buffer.from('b')]);
    res.end();
    expect(await written(channel)).toBe('');
    expect(channel.responses).toEqual([]);
  });

  it.each(['a\r\nb: c', 'a\nb', 'a\rb', 'a\0', '\x7f', '\u2028', '\u010d\u010a'])(
    'refuses the value %j, and can be another then',
    async (value) => {
      const channel = new Channel();
      const res = new InboundResponse(channel);
      expect(() => res.sendText(200, ['X', value], 'a')).toThrow();
      expect(() => res.send(200, ['X', value], [])).toThrow();
      expect(() => res.open(200, ['X', value])).toThrow();
      expect(res.begun).toBe(false);
      res.sendText(500, [], 'b');
      expect(await written(channel)).toMatch(/^HTTP\/1\.1 500 .*\r\n\r\nb$/s);
    },
  );

  it('takes the end of the connection from whoever asks for it', async () => {
    const channel = new Channel();
    new InboundResponse(channel).send(200, ['Connection', 'close'], []);
    expect((await written(channel)).match(/connection: .*/gi)).toEqual(['Connection: close']);
    expect(channel.responses).toEqual([false]);
  });

  it('has no body where there can be none', async () => {
    for (const [status, headOnly] of [
      [204, false],
      [304, false],
      [200, true],
    ] as const) {
      const channel = new Channel();
      channel.headOnly = headOnly;
      new InboundResponse(channel).sendText(status, [], 'abc');
      const text = await written(channel);
      expect(text.endsWith('\r\n\r\n')).toBe(true);
      expect(text.includes('Content-Length: 3')).toBe(headOnly);
      expect(channel.responses).toEqual([true]);
    }
  });
});

describe('a response that is added to', () => {
  const opened = (set: Partial<Channel> = {}): { channel: Channel; res: InboundResponse } => {
    const channel = Object.assign(new Channel(), set);
    const res = new InboundResponse(channel);
    res.open(200, []);
    return { channel, res };
  };
  const bodyOf = (text: string): string => text.slice(text.indexOf('\r\n\r\n') + 4);

  it('goes out in chunks', async () => {
    const { channel, res } = opened();
    expect(res.ended).toBe(false);
    res.write('\u00e9');
    res.write([Buffer.from('abc'), Buffer.alloc(0), Buffer.from('d'.repeat(13))]);
    res.end();
    res.end();
    res.write('late');
    const text = await written(channel);
    expect(text).toContain('\r\nTransfer-Encoding: chunked\r\n');
    expect(bodyOf(text)).toBe(`2\r\n\xc3\xa9\r\n10\r\nabc${'d'.repeat(13)}\r\n0\r\n\r\n`);
    expect(channel.responses).toEqual([true]);
  });

  it.each<[string, string | Buffer[]]>([
    ['a text', ''],
    ['parts', []],
    ['an empty part', [Buffer.alloc(0)]],
  ])('does not end with nothing: %s', async (_, nothing) => {
    const { channel, res } = opened();
    res.write('a');
    res.write(nothing);
    res.write('b');
    res.end();
    // A chunk of no bytes is the last one.
    expect(bodyOf(await written(channel))).toBe('1\r\na\r\n1\r\nb\r\n0\r\n\r\n');
  });

  it('goes out in chunks where they are large', async () => {
    const { channel, res } = opened();
    res.write([Buffer.alloc(100_000, 97), Buffer.alloc(100_000, 98)]);
    res.end();
    expect(bodyOf(await written(channel))).toBe(`30d40\r\n${'a'.repeat(100_000)}${'b'.repeat(100_000)}\r\n0\r\n\r\n`);
  });

  it('ends with the connection where the client knows no chunks', async () => {
    const { channel, res } = opened({ old: true });
    res.write('a');
    res.write('');
    res.write([Buffer.from('b')]);
    res.end();
    expect(await written(channel)).toBe('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nab');
    expect(channel.responses).toEqual([false]);
  });

  it('is only a head where only that was asked for', async () => {
    const { channel, res } = opened({ headOnly: true });
    res.write('a');
    res.end();
    expect(bodyOf(await written(channel))).toBe('');
    expect(channel.responses).toEqual([true]);
  });

  it.each([204, 304])('has no body where its status is %i', async (status) => {
    const channel = new Channel();
    const res = new InboundResponse(channel);
    res.open(status, []);
    res.write('a');
    res.end();
    const text = await written(channel);
    expect(text).not.toContain('Transfer-Encoding');
    expect(bodyOf(text)).toBe('');
  });
});

describe('the end of a response', () => {
  it('is told once to everybody who still listens', () => {
    const res = new InboundResponse(new Channel());
    const heard: string[] = [];
    const [a, b] = [() => void heard.push('a'), () => void heard.push('b')];
    res.onClose(a);
    res.onClose(b);
    res.onClose(() => {
      heard.push(`c ${res.closed} ${res.finished}`);
      res.offClose(a);
    });
    res.offClose(b);
    res.offClose(() => {});
    res.over(true);
    res.over(false);
    expect(heard).toEqual(['a', 'c true true']);
    expect(res.finished).toBe(true);
  });

  it('makes everything harmless', async () => {
    const channel = new Channel();
    const res = new InboundResponse(channel);
    res.over(false);
    res.sendText(200, [], 'a');
    res.send(200, [], []);
    res.open(200, []);
    res.write('b');
    res.end();
    expect(await written(channel)).toBe('');
    expect([res.begun, res.finished]).toEqual([false, false]);
  });

  it('leaves the connection alone, which may have gone on', () => {
    const channel = new Channel();
    const res = new InboundResponse(channel);
    res.over(true);
    res.destroy();
    expect(channel.bytes.destroyed).toBe(false);
  });

  it('cuts the connection before it where it has to', () => {
    const channel = new Channel();
    const res = new InboundResponse(channel);
    let closes = 0;
    res.onClose(() => void closes++);
    res.open(200, []);
    res.destroy();
    res.destroy();
    expect([channel.bytes.destroyed, res.closed, res.finished, closes]).toEqual([true, true, false, 1]);
  });

  it('keeps what was to go out with others from going out', async () => {
    const channel = new Channel();
    // With more than one in a turn they wait for its end.
    for (let i = 0; i < 3; i++) new InboundResponse(new Channel()).sendText(200, [], 'x');
    await turn();
    new InboundResponse(new Channel()).sendText(200, [], 'x');
    const res = new InboundResponse(channel);
    res.sendText(200, [], 'a');
    res.over(false);
    expect(await written(channel)).toBe('');
    expect(channel.responses).toEqual([]);
  });
});
