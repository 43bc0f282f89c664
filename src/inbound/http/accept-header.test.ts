import { expect, test } from 'vitest';
import { accepted } from './accept-header.js';

const CHROME =
  'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7';

test.each([
  [CHROME, 'html'],
  ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', 'html'],
  ['text/html', 'html'],
  ['TEXT/HTML; charset=utf-8', 'html'],
  ['application/xhtml+xml', 'html'],
  ['text/html;q=0.2', 'html'],
  ['text/html, application/json;q=0.5', 'html'],
  ['application/json, text/html', 'json'],
  ['application/json, text/html;q=0.9, */*;q=0.1', 'json'],
  ['*/*', 'json'],
  [undefined, 'json'],
  [' ', 'json'],
  ['application/json', 'json'],
  ['text/html;q=0, */*', 'json'],
  ['text/html;q=nonsense', 'html'],
])('Accept: %s prefers %s', (header, preferred) => {
  const { html, json } = accepted(header);
  expect(html ? 'html' : json ? 'json' : 'nothing').toBe(preferred);
});

test.each([
  ['application/json, text/event-stream', { json: true, stream: true, html: false }],
  ['text/event-stream', { json: false, stream: true, html: false }],
  ['text/event-stream, text/html', { json: false, stream: true, html: true }],
  ['text/*', { json: false, stream: true, html: false }],
  ['application/json;q=0', { json: false, stream: false, html: false }],
  ['application/json;q=0.000', { json: false, stream: false, html: false }],
  ['image/*', { json: false, stream: false, html: false }],
])('Accept: %s is %j', (header, expected) => expect(accepted(header)).toEqual(expected));
