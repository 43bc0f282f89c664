import path from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  filePath,
  formatListen,
  hostName,
  httpUrl,
  isLoopback,
  type ListenAddress,
  listenAddress,
  webOrigin,
} from './address-fields.js';
import { Refusal, type Scalar } from './field.js';

const read = (field: Scalar<unknown>, value: string | number): unknown => field.read(value, { directory: '/here' });
const description = 'd';

describe('listen', () => {
  const field = listenAddress({ description });
  test.each([
    ['127.0.0.1:4600', '127.0.0.1', 4600],
    ['0.0.0.0:80', '0.0.0.0', 80],
    ['[::1]:4600', '::1', 4600],
    ['[::]:4600', '::', 4600],
    ['localhost:0', 'localhost', 0],
    ['gateway.example.com:443', 'gateway.example.com', 443],
    ['4600', '127.0.0.1', 4600],
    [4600, '127.0.0.1', 4600],
  ])('%s', (written, host, port) => {
    expect(read(field, written)).toEqual({ host, port });
  });

  test.each([
    '',
    ':4600',
    '127.0.0.1',
    '127.0.0.1:65536',
    '127.0.0.1:x',
    '::1:4600',
    '[127.0.0.1]:1',
    '300.1.1.1:1',
    'a b:1',
    'http://x:1',
  ])('%j is refused', (written) => {
    expect(read(field, written)).toBeInstanceOf(Refusal);
  });

  test('is shown as it is written', () => {
    for (const written of ['127.0.0.1:4600', '[::1]:4600', 'localhost:1']) {
      expect(formatListen(read(field, written) as ListenAddress)).toBe(written);
    }
  });
});

test('loopback addresses are those that only this machine can reach', () => {
  for (const host of ['127.0.0.1', '127.8.9.10', '::1', 'localhost', 'LOCALHOST', '::ffff:127.0.0.1']) {
    expect(isLoopback(host), host).toBe(true);
  }
  for (const host of [
    '0.0.0.0',
    '::',
    '10.0.0.1',
    '192.168.1.1',
    'example.com',
    'localhost.example.com',
    '128.0.0.1',
  ]) {
    expect(isLoopback(host), host).toBe(false);
  }
});

test('a URL is http or https, and is shown with its secrets masked', () => {
  const field = httpUrl({ description });
  expect(read(field, 'https://a.example/mcp')).toBe('https://a.example/mcp');
  for (const bad of ['', 'a.example/mcp', 'ftp://a', 'unix:///tmp/x.sock', 'file:///etc/passwd']) {
    expect(read(field, bad), bad).toBeInstanceOf(Refusal);
  }
  expect(field.show('https://ada:pw@a.example/mcp?api_key=1&page=2&access_token=3#x')).toBe(
    'https://********@a.example/mcp?api_key=********&page=2&access_token=********#x',
  );
  expect(field.show('https://a:p@ss@b.example/')).toBe('https://********@b.example/');
});

test('a relative path starts at the folder of the file that contains the path', () => {
  const field = filePath({ description });
  expect(read(field, './x')).toBe(path.resolve('/here/x'));
  expect(read(field, '/y')).toBe(path.resolve('/y'));
  expect(read(field, '')).toBeInstanceOf(Refusal);
  expect(read(field, 'a\0b')).toBeInstanceOf(Refusal);
});

test('an origin is scheme, host and port', () => {
  const field = webOrigin({ any: true, description });
  expect(read(field, 'https://App.example.com')).toBe('https://app.example.com');
  expect(read(field, 'https://app.example.com:443/')).toBe('https://app.example.com');
  expect(read(field, 'vscode-webview://abc')).toBe('vscode-webview://abc');
  expect(read(field, '*')).toBe('*');
  expect(read(field, 'null')).toBe('null');
  for (const bad of ['app.example.com', 'https://a/b', 'https://u@a', '', 'https://']) {
    expect(read(field, bad), bad).toBeInstanceOf(Refusal);
  }
  expect(read(webOrigin({ any: false, description }), '*')).toBeInstanceOf(Refusal);
});

test('a host is a name or an address, with or without a port', () => {
  const field = hostName({ description });
  for (const good of ['gateway.example.com', 'gateway:4600', '10.0.0.1:80', '[::1]:4600', '[::1]']) {
    expect(read(field, good), good).toBe(good);
  }
  expect(read(field, 'Gateway')).toBe('gateway');
  for (const bad of ['', 'http://x', 'x:70000', 'a b', '::1', '*', '1.2.3']) {
    expect(read(field, bad), bad).toBeInstanceOf(Refusal);
  }
});
