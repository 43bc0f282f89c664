import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  Channel,
  Core,
  chunk,
  message,
  read,
  ScriptedAgent,
  status,
  task,
  told,
} from '../../test/support/scripted-agent.js';
import { type Cluster, ENGINES, QUICK, startCluster } from '../../test/support/state-engines.js';
import { OpenAdmission } from '../core/admission.js';
import { Pipeline } from '../core/pipeline.js';
import { Seal } from '../core/seal.js';
import type { State } from '../state/index.js';
import { SILENT } from '../telemetry/log.js';
import { agentRecords } from './a2a-records.js';

describe.each(ENGINES.filter((engine) => engine !== 'sqlite'))('replicas on %s', (engine) => {
  let cluster: Cluster;
  let states: State[];
  let one: ScriptedAgent;
  let cores: Core[];

  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    states = await Promise.all([cluster.open(), cluster.open()]);
  }, 120_000);
  beforeEach(async () => {
    await cluster.clear();
    one = new ScriptedAgent('one');
    cores = states.map((state) => {
      return new Core({
        agents: { get: () => one, names: () => ['one'] },
        admission: new OpenAdmission(() => true),
        pipeline: new Pipeline([]),
        records: agentRecords(state, { taskTtl: 60_000, shared: true }),
        seal: new Seal(state.keyring),
        limits: {
          parts: 1_000,
          artifacts: 10,
          history: 10,
          taskSize: 1_000_000,
          tasks: 1_000,
          streams: 10,
          streamsPerCaller: 10,
          followed: 10,
          maxHops: 3,
        },
        timeouts: { call: 5_000, lease: 3_000 },
        instance: 'here',
        log: SILENT,
      });
    });
  });
  afterEach(() => Promise.all(cores.map(({ dispatcher }) => dispatcher.close())));
  afterAll(() => cluster.stop());

  test('every replica serves a task that another replica started: subscribe, get, list and cancel', async () => {
    const [here, there] = cores as [Core, Core];
    const upstream = new Channel();
    upstream.push({ task: task('t1', 'TASK_STATE_WORKING') });
    one.onStream = () => upstream;
    const own = await here.open('SendStreamingMessage', { message: message() });
    await read(own, 1);
    const events = await there.open('SubscribeToTask', { id: 't1' });
    expect(told(await read(events, 1))).toEqual(['task WORKING']);
    for (let i = 0; i < 100; i++) upstream.push(chunk('t1', `${i} `, i > 0));
    await read(own, 100);
    expect(told(await read(events, 100))).toEqual(Array.from({ length: 100 }, (_, i) => `${i} `));
    expect(await there.call('ListTasks', {})).toMatchObject({ totalSize: 1, tasks: [{ id: 't1' }] });
    one.onCancel = (id) => task(id, 'TASK_STATE_CANCELED');
    await there.call('CancelTask', { id: 't1' });
    expect(told(await read(events)).at(-1)).toBe('CANCELED');
    upstream.push(status('t1', 'TASK_STATE_CANCELED'));
    await read(own);
    expect(await here.call('GetTask', { id: 't1' })).toMatchObject({ status: { state: 'TASK_STATE_CANCELED' } });
    expect(one.count('SubscribeToTask')).toBe(0);
  });

  test('a subscription continues after the replica that followed the task has left', async () => {
    const [here, there] = cores as [Core, Core];
    const [upstream, next] = [new Channel(), new Channel()];
    const working = task('t1', 'TASK_STATE_WORKING');
    upstream.push({ task: working });
    next.push({ task: working });
    one.onStream = () => upstream;
    one.onSubscribe = () => next;
    await read(await here.open('SendStreamingMessage', { message: message() }), 1);
    const events = await there.open('SubscribeToTask', { id: 't1' });
    await read(events, 1);
    await here.dispatcher.close();
    await expect.poll(() => one.count('SubscribeToTask'), { timeout: 8_000 }).toBe(1);
    next.push(status('t1', 'TASK_STATE_COMPLETED'));
    expect(told(await read(events))).toEqual(['COMPLETED']);
  });
});
