import { describe, expect, test } from 'vitest';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonValue } from '../../protocol/jsonrpc/raw.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import type { InputResponses } from '../../protocol/mcp/model.js';
import { Cancellation } from '../caller.js';
import { type Call, complete, failed, type Outcome, type ParkedCall } from '../gateway.js';
import { ParkedCalls, type ParkedRecords, type ParkingLimits } from './parked-calls.js';

const LIMITS: ParkingLimits = {
  ...{ ttl: 60_000, inAll: 10, perCaller: 10, perServer: 10 },
  bytes: { inAll: 1_500, perCaller: 1_000 },
};
const YES: InputResponses = { question: { action: 'accept' } };
const NO: InputResponses = { question: { action: 'decline' } };

/** A call that ends as soon as its question is answered, or when the test calls `end`. */
class Waiting implements ParkedCall {
  readonly got: InputResponses[] = [];
  readonly over = new Promise<void>(() => {});
  end: ((outcome: Outcome) => void) | undefined;

  constructor(private readonly atOnce = true) {}

  resume(from: { cancellation: Cancellation }, answers: InputResponses): Promise<Outcome> {
    this.got.push(answers);
    if (this.atOnce) return Promise.resolve(complete(RawObject.from({ run: this.got.length })));
    return new Promise((resolve) => {
      this.end = resolve;
      from.cancellation.onCancel(() => resolve(failed(cancelled())));
    });
  }

  readonly abandoned: string[] = [];

  abandon(reason: string): void {
    this.abandoned.push(reason);
  }
}

const cancelled = () => new ProtocolError('cancelled', 'The request was cancelled');
const request = (cancellation = new Cancellation()) => ({ notify: () => {}, cancellation });
const resultOf = (outcome: Outcome): unknown => outcome.kind === 'complete' && outcome.result.value();

describe('the same answer twice', () => {
  test.each([
    ['at the same time', false],
    ['after the call has ended', true],
  ])('%s gets the same outcome, and the call continues once', async (_, later) => {
    const parking = new ParkedCalls(LIMITS);
    const call = new Waiting();
    const ticket = parking.park('ada', 'server', call, 10);
    const first = parking.resume(ticket, 'ada', request(), YES);
    if (later) await first;
    const second = parking.resume(ticket, 'ada', request(), YES);
    expect((await Promise.all([first, second])).map(({ outcome }) => resultOf(outcome))).toEqual([
      { run: 1 },
      { run: 1 },
    ]);
    expect(call.got).toEqual([YES]);
    expect(parking.size).toBe(0);
  });

  test.each([
    ['while the call continues', false],
    ['after the call has ended', true],
  ])('is refused if it differs, %s', async (_, atOnce) => {
    const parking = new ParkedCalls(LIMITS);
    const call = new Waiting(atOnce);
    const ticket = parking.park('ada', 'server', call, 10);
    const first = parking.resume(ticket, 'ada', request(), YES);
    if (atOnce) await first;
    await expect(parking.resume(ticket, 'ada', request(), NO)).rejects.toThrow('already has a different answer');
    await expect(parking.resume(ticket, 'bob', request(), YES)).rejects.toThrow(
      'This request state is no longer valid',
    );
    call.end?.(complete(RawObject.from({})));
    await first;
    expect(call.got).toEqual([YES]);
  });

  test('is refused if the caller cancelled the call', async () => {
    const parking = new ParkedCalls(LIMITS);
    const call = new Waiting(false);
    const ticket = parking.park('ada', 'server', call, 10);
    const cancellation = new Cancellation();
    const first = parking.resume(ticket, 'ada', request(cancellation), YES);
    cancellation.cancel('gone');
    expect((await first).outcome).toMatchObject({ kind: 'error', error: { reason: 'cancelled' } });
    await expect(parking.resume(ticket, 'ada', request(), YES)).rejects.toThrow(
      'This request state is no longer valid',
    );
  });

  test('joins the call when this process takes the call over from a process that is gone', async () => {
    let record: JsonValue | undefined = { call: 1 };
    const records: ParkedRecords = {
      keep: async () => {},
      take: async () => {
        const call = record;
        record = undefined;
        return call === undefined ? undefined : { server: 'server', call };
      },
    };
    const call = new Waiting();
    const parking = new ParkedCalls(LIMITS, undefined, { records, adopt: () => call });
    const { owner } = parking.park('ada', 'server', new Waiting(), 10);
    const ticket = { id: 'of-the-process-before', round: 1, owner };
    const both = [1, 2].map(() => parking.resume(ticket, 'ada', request(), YES));
    expect((await Promise.all(both)).map(({ outcome }) => resultOf(outcome))).toEqual([{ run: 1 }, { run: 1 }]);
    expect(call.got).toEqual([YES]);
  });
});

describe('the bytes of the requests of parked calls are limited', () => {
  test('for each caller and for all callers together; an answered call frees its bytes', async () => {
    const parking = new ParkedCalls(LIMITS);
    const first = parking.park('ada', 'server', new Waiting(), 600);
    const refused = new Waiting();
    expect(() => parking.park('ada', 'server', refused, 600)).toThrow('Your calls that wait for answers hold too much');
    expect(refused.abandoned).toEqual([
      'Your calls that wait for answers hold too much data; answer or cancel some first',
    ]);
    parking.park('bob', 'server', new Waiting(), 600);
    expect(() => parking.park('eve', 'server', new Waiting(), 600)).toThrow('The calls that wait for answers hold too');
    await parking.resume(first, 'ada', request(), YES);
    parking.park('ada', 'server', new Waiting(), 600);
  });

  test('a single call may exceed the limit', () => {
    const parking = new ParkedCalls(LIMITS);
    parking.park('ada', 'server', new Waiting(), 5_000);
    expect(() => parking.park('ada', 'server', new Waiting(), 1)).toThrow('hold too much data');
  });

  test('a call that asks again does not keep the request that carried the earlier answer', async () => {
    const parking = new ParkedCalls(LIMITS);
    const sinks: Pick<Call, 'notify'>[] = [];
    const asking: ParkedCall = {
      over: new Promise(() => {}),
      abandon: () => {},
      resume: (from) => {
        sinks.push(from);
        return Promise.resolve({ kind: 'input_required', inputRequests: {}, parked: asking });
      },
    };
    const got: object[] = [];
    const ticket = parking.park('ada', 'server', asking, 10);
    await parking.resume(ticket, 'ada', { ...request(), notify: (notification) => got.push(notification) }, YES);
    sinks[0]!.notify({ method: 'notifications/progress', params: {} });
    expect(got).toEqual([]);
  });
});
