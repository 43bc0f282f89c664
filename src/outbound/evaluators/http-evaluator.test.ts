import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EvaluatedCall } from '../../core/evaluation/evaluator.js';
import { HttpClient } from '../http/index.js';
import { HttpEvaluator } from './http-evaluator.js';

let server: Server;
let url: string;
const client = new HttpClient({ connectTimeout: 5_000 });
const seen: { headers: Record<string, unknown>; body: string }[] = [];
/** The answers of the service by path; a path without one never gets an answer. */
const ANSWERS: Record<string, [status: number, body: string]> = {
  '/good': [200, '{"score":0.75,"label":"fair","more":[1]}'],
  '/none': [204, ''],
  '/wrong': [200, '{"score":"high"}'],
  '/text': [200, 'excellent'],
  '/broken': [500, '{"score":1}'],
  '/moved': [302, ''],
  '/endless': [200, 'x'.repeat(1_000_000)],
};

beforeAll(async () => {
  server = createServer(async (req, res) => {
    seen.push({ headers: req.headers, body: Buffer.concat(await req.toArray()).toString() });
    const answer = ANSWERS[req.url ?? ''];
    if (answer) res.writeHead(answer[0], { location: '/good' }).end(answer[1]);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  await client.close();
  server.closeAllConnections();
  server.close();
});

const evaluate = (path: string, timeout = 20_000) =>
  new HttpEvaluator({ client, url: `${url}${path}`, token: 'sesame', timeout }).evaluate({
    requestId: 'r1',
    json: Buffer.from('{"method":"tools/call"}'),
  } as EvaluatedCall);

test('posts the call with its token, and reads the score', async () => {
  expect(await evaluate('/good')).toEqual({ score: 0.75, label: 'fair' });
  expect(seen.at(-1)).toMatchObject({
    headers: { authorization: 'Bearer sesame', 'content-type': 'application/json', 'x-request-id': 'r1' },
    body: '{"method":"tools/call"}',
  });
  expect(await evaluate('/none')).toEqual({ score: null });
});

test.each([
  ['/wrong', 'the score is not a number'],
  ['/text', 'the answer is not JSON'],
  ['/broken', 'status 500'],
  ['/moved', 'status 302'],
  ['/endless', 'REPLY_TOO_LARGE'],
])('a service that answers as %s fails', async (path, reason) => {
  await expect(evaluate(path)).rejects.toThrow(reason);
});

test('a service that does not answer fails after the time limit', async () => {
  await expect(evaluate('/silent', 50)).rejects.toThrow('no answer in time');
});

test('a service that refuses the connection fails with the code of the error', async () => {
  const evaluator = new HttpEvaluator({ client, url: 'http://127.0.0.1:1', token: undefined, timeout: 20_000 });
  const call = { requestId: 'r1', json: Buffer.from('{}') } as EvaluatedCall;
  await expect(evaluator.evaluate(call)).rejects.toThrow('ECONNREFUSED');
});
