import { describe, expect, it } from 'vitest';
import { Addresses } from './connection-limits.js';
import { plainAddress, TrustedProxies } from './forwarded.js';

const proxies = new TrustedProxies(['10.0.0.0/8', '127.0.0.1', '2001:db8::/32']);
const read = (headers: Readonly<Record<string, string>>) => proxies.read((name) => headers[name]);

describe('trusted proxies', () => {
  it.each([
    ['10.1.2.3', true],
    ['11.1.2.3', false],
    ['127.0.0.1', true],
    ['127.0.0.2', false],
    ['2001:db8::1', true],
    ['2001:db9::1', false],
    ['', false],
    ['unknown', false],
  ])('%s: %s', (address, trusted) => {
    expect(proxies.includes(address)).toBe(trusted);
  });

  it('no proxy is trusted by default', () => {
    expect(new TrustedProxies([]).includes('127.0.0.1')).toBe(false);
  });
});

describe('the client behind a proxy', () => {
  it.each<[Record<string, string>, string | undefined]>([
    [{ 'x-forwarded-for': '192.0.2.1' }, '192.0.2.1'],
    // Values that the client itself wrote in front are ignored.
    [{ 'x-forwarded-for': '1.1.1.1, 192.0.2.1' }, '192.0.2.1'],
    [{ 'x-forwarded-for': '1.1.1.1, 192.0.2.1, 10.0.0.7, 10.0.0.8' }, '192.0.2.1'],
    [{ 'x-forwarded-for': '10.0.0.7' }, '10.0.0.7'],
    [{ 'x-forwarded-for': '192.0.2.1:4711' }, '192.0.2.1'],
    [{ 'x-forwarded-for': '[2001:db9::7]:4711' }, '2001:db9::7'],
    [{ 'x-forwarded-for': '::ffff:192.0.2.1' }, '192.0.2.1'],
    [{ 'x-forwarded-for': 'unknown, 10.0.0.7' }, '10.0.0.7'],
    [{ 'x-forwarded-for': 'nonsense' }, undefined],
    [{ forwarded: 'for=192.0.2.1' }, '192.0.2.1'],
    [{ forwarded: 'For="[2001:db9::7]:4711";proto=https;by=10.0.0.1' }, '2001:db9::7'],
    [{ forwarded: 'for=1.1.1.1, for=192.0.2.1;host="a,b;c", for=10.0.0.7' }, '192.0.2.1'],
    [{ forwarded: 'for=_hidden' }, undefined],
    // A proxy sets one of the headers and passes the other on: if they differ, the client is unknown.
    [{ forwarded: 'for=192.0.2.1', 'x-forwarded-for': '192.0.2.1' }, '192.0.2.1'],
    [{ forwarded: 'for=1.1.1.1', 'x-forwarded-for': '192.0.2.1' }, undefined],
    [{ 'x-forwarded-proto': 'https' }, undefined],
  ])('%j is %s', (headers, address) => {
    expect(read(headers)?.address).toBe(address);
  });

  it.each<[Record<string, string>, string | undefined, string | undefined]>([
    [{ 'x-forwarded-proto': 'https', 'x-forwarded-host': 'gw.example' }, 'https', 'gw.example'],
    [{ 'x-forwarded-proto': 'http, HTTPS', 'x-forwarded-host': 'evil, gw.example:8443' }, 'https', 'gw.example:8443'],
    [
      { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'gw.example', 'x-forwarded-port': '443' },
      'https',
      'gw.example',
    ],
    [{ 'x-forwarded-host': 'gw.example', 'x-forwarded-port': '8080' }, undefined, 'gw.example:8080'],
    [{ 'x-forwarded-host': '[2001:db9::7]', 'x-forwarded-port': '8080' }, undefined, '[2001:db9::7]:8080'],
    [{ 'x-forwarded-host': 'a/b', 'x-forwarded-proto': 'javascript' }, undefined, undefined],
    [{ 'x-forwarded-host': 'user@gw.example' }, undefined, undefined],
    [{ forwarded: 'for=1.1.1.1;host=gw.example;proto=https' }, 'https', 'gw.example'],
    [{ forwarded: 'host=evil.example', 'x-forwarded-for': '1.1.1.1' }, undefined, undefined],
  ])('reaches %j', (headers, scheme, host) => {
    expect(read(headers)).toMatchObject({ scheme, host });
  });

  it('is unknown without forwarding headers', () => {
    expect(read({ host: 'a' })).toBeUndefined();
  });
});

describe('addresses', () => {
  it('are counted, and removed with their last connection', () => {
    const addresses = new Addresses(2);
    expect([addresses.enter('a'), addresses.enter('a'), addresses.enter('a'), addresses.enter('b')]).toEqual([
      true,
      true,
      false,
      true,
    ]);
    addresses.leave('a');
    expect(addresses.enter('a')).toBe(true);
    for (const address of ['a', 'a', 'b']) addresses.leave(address);
    expect(addresses.size).toBe(0);
  });

  it('of one IPv6 network count as one', () => {
    const addresses = new Addresses(2);
    for (const address of ['2001:db8:1:2::1', '2001:db8:1:2:aaaa::', '2001:db8:1:2:3:4:5:6']) addresses.enter(address);
    expect([addresses.size, addresses.enter('2001:db8:1:2::7')]).toEqual([1, false]);
    expect(addresses.enter('2001:db8:1:3::1')).toBe(true);
    expect([addresses.enter('::1'), addresses.enter('::'), addresses.enter('::2')]).toEqual([true, true, false]);
  });

  it.each([
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['fe80::1%eth0', 'fe80::1'],
    ['2001:DB8::1', '2001:db8::1'],
    ['192.0.2.1', '192.0.2.1'],
  ])('%s is %s', (given, plain) => {
    expect(plainAddress(given)).toBe(plain);
  });
});
