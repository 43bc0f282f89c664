import { describe, expect, test } from 'vitest';
import { callerNamed, cardOf, cardsOf, StaticAgent, showing } from '../../../../test/support/static-agent.js';
import { VERSIONS } from '../../../protocol/a2a/dialect.js';
import type {
  Message,
  Operation,
  Part,
  SendMessageResponse,
  StreamResponse,
  Task,
} from '../../../protocol/a2a/model.js';
import { ROUTE } from '../../../protocol/a2a/model.js';
import type { JsonObject } from '../../../protocol/jsonrpc/raw.js';
import { Cancellation } from '../../caller.js';
import { seeded } from '../../replica-choice/random.js';
import type { Passed } from '../agent.js';
import type { CardsOptions } from '../cards/published-cards.js';
import type { AgentAnswer, AgentCall } from '../gateway.js';
import type { TaskRecord } from '../tasks/task-records.js';
import { ROUTING_AGENT, routeNote, tracedRoute, withRoute, withRouteNote } from './agent-router.js';
import { buildRouter } from './ask-which-agent.js';
import { EqualSkills } from './choice-among-equal-skills.js';

const ann = callerNamed('ann');

const weather = new StaticAgent(
  'weather',
  cardOf('Weather', {
    skills: [
      {
        id: 'forecast',
        name: 'Forecast',
        description: 'Tells the weather of a city for the coming days',
        tags: ['weather', 'rain'],
        examples: ['Will it rain in Oslo tomorrow?'],
      },
    ],
  }),
);
const travel = new StaticAgent(
  'travel',
  cardOf('Travel planner', {
    defaultInputModes: ['text/plain', 'image/*'],
    skills: [
      { id: 'book', name: 'Book trips', description: 'Books flights and hotels', tags: ['flights', 'hotels'] },
      { id: 'forecast', name: 'Costs', description: 'Estimates what a trip will cost', tags: ['budget'] },
    ],
  }),
);
const sums = new StaticAgent(
  'sums',
  cardOf('Sums', {
    defaultOutputModes: ['application/json'],
    skills: [{ id: 'solve', name: 'Solve', description: 'Solves equations', tags: ['math'] }],
  }),
);

/** A fake of the task records that routing reads. */
class Records {
  readonly tasks: TaskRecord[] = [];

  add(agent: string, id: string, contextId: string, task?: Task): void {
    const made = task ?? { id, contextId, status: { state: 'TASK_STATE_WORKING' } };
    this.tasks.push({
      agent,
      owner: 'ann',
      id,
      upstreamId: id,
      contextId,
      task: made,
      seq: 1,
      dialect: VERSIONS[0],
      createdAt: 0,
      updatedAt: 0,
    });
  }

  async findUpstream(agent: string, upstreamId: string) {
    return this.tasks.find((task) => task.agent === agent && task.upstreamId === upstreamId);
  }

  async findAll(owner: string, id: string) {
    return this.tasks.filter((task) => task.owner === owner && task.id === id);
  }

  async contextAgent(owner: string, contextId: string) {
    return this.tasks.find((task) => task.owner === owner && task.contextId === contextId)?.agent;
  }
}

const message = (parts: Part[] | string, more: Partial<Message> = {}): Message => ({
  messageId: 'm1',
  role: 'ROLE_USER',
  parts: typeof parts === 'string' ? [{ text: parts }] : parts,
  ...more,
});

const callOf = (value: JsonObject, operation: Operation = 'SendMessage'): AgentCall => ({
  agent: undefined,
  operation,
  request: { value },
  dialect: VERSIONS[0],
  exchange: { cancellation: new Cancellation(), extensions: [], forward: {} },
});

function stand(agents = [weather, travel, sums], more: Partial<CardsOptions> = {}, equalSkills?: EqualSkills) {
  const records = new Records();
  const handed: AgentCall[] = [];
  const answers: SendMessageResponse[] = [];
  const router = buildRouter({
    cards: cardsOf(agents, more),
    records,
    ...(equalSkills && { equalSkills }),
    gateway: () => ({
      handle: async (_, call): Promise<AgentAnswer> => {
        handed.push(call);
        return { kind: 'result', result: { value: (answers.shift() ?? {}) as JsonObject } };
      },
    }),
  });
  const route = (given: Message | JsonObject, operation?: Operation) =>
    router.route(ann, callOf('parts' in given ? { message: given as JsonObject } : given, operation));
  return { router, records, handed, answers, route };
}

describe('routing on the shared endpoint (G-4)', () => {
  test('G-5: the agent of a task gets all later messages and operations of the task', async () => {
    const { records, route } = stand();
    records.add('sums', 't1', 'c1');
    const expected = { kind: 'agent', agent: 'sums', why: 'task' };
    expect(await route(message('will it rain?', { taskId: 't1' }))).toEqual(expected);
    expect(await route({ id: 't1' }, 'GetTask')).toEqual(expected);
    expect(await route({ id: 't1' }, 'CancelTask')).toEqual(expected);
    expect(await route({ taskId: 't1', id: 'p1' }, 'GetTaskPushNotificationConfig')).toEqual(expected);
  });

  test('messages for a skill of several agents are spread over them; a context stays with its agent', async () => {
    const twin = new StaticAgent('weather-2', weather.card);
    const { records, route } = stand(
      [weather, twin, travel],
      {},
      new EqualSkills({ objective: 100, random: seeded(1) }),
    );
    const agents = new Set<string>();
    for (let turn = 0; turn < 60; turn += 1) {
      const decision = await route(message('will it rain in Oslo?'));
      if (decision.kind !== 'agent') throw new Error('no agent was chosen');
      agents.add(decision.agent);
      expect(decision.skillId).toBe(`${decision.agent}.forecast`);
      await decision.choice!.run(async () => ({ kind: 'result', result: { value: {} } }));
    }
    expect([...agents].sort()).toEqual(['weather', 'weather-2']);
    records.add('weather-2', 't1', 'c1');
    expect(await route(message('and tomorrow, will it rain?', { contextId: 'c1' }))).toEqual({
      ...{ kind: 'agent', agent: 'weather-2', why: 'context' },
    });
    // Different skills with the same id do not count as equal.
    await expect(route(message('x', { metadata: { [ROUTE]: { skillId: 'forecast' } } }))).rejects.toMatchObject({
      reason: 'invalid_params',
    });
    const pair = stand([weather, twin], {}, new EqualSkills({ objective: 100, random: seeded(1) }));
    expect(await pair.route(message('will it rain in Oslo?'))).toMatchObject({ why: 'match' });
    // Both agents have all of the skills, so the client is not asked.
    expect(await pair.route(message('xyzzy'))).toMatchObject({ kind: 'agent', why: 'only' });
    expect(await pair.route(message('x', { metadata: { [ROUTE]: { skillId: 'forecast' } } }))).toMatchObject({
      why: 'hint',
    });
  });

  test('S-26: an unknown task, or a task of another caller, is not found', async () => {
    const { records, router, route } = stand();
    records.add('sums', 't1', 'c1');
    await expect(route({ id: 't2' }, 'GetTask')).rejects.toMatchObject({ reason: 'task_not_found' });
    const foreign = router.route(callerNamed('bob'), callOf({ id: 't1' }, 'GetTask'));
    await expect(foreign).rejects.toMatchObject({ reason: 'task_not_found' });
  });

  test('a task id of two agents is refused with both names, unless the caller names the agent', async () => {
    const { records, route } = stand();
    records.add('sums', 't1', 'c1');
    records.add('travel', 't1', 'c2');
    await expect(route({ id: 't1' }, 'GetTask')).rejects.toMatchObject({
      reason: 'invalid_params',
      data: { candidates: ['sums', 'travel'] },
    });
    expect(await route({ id: 't1', tenant: 'travel' }, 'GetTask')).toMatchObject({ agent: 'travel' });
  });

  test('a task or context of an agent that is now hidden goes to no other agent', async () => {
    const { records, route } = stand([weather, travel, sums], { admission: showing({ ann: ['weather', 'travel'] }) });
    records.add('sums', 't1', 'c1');
    const continued = message('will it rain?', { taskId: 't1' });
    await expect(route(continued)).rejects.toMatchObject({ reason: 'task_not_found' });
    await expect(route({ id: 't1' }, 'GetTask')).rejects.toMatchObject({ reason: 'task_not_found' });
    const inContext = route(message('will it rain?', { contextId: 'c1' }));
    await expect(inContext).rejects.toMatchObject({ reason: 'agent_not_found' });
    await expect(inContext).rejects.not.toThrow('sums');
    records.add('travel', 't1', 'c2');
    expect(await route({ id: 't1' }, 'GetTask')).toMatchObject({ agent: 'travel' });
  });

  test('G-5: the agent of the context, then of the referenced tasks', async () => {
    const { records, route } = stand();
    records.add('travel', 't1', 'c1');
    expect(await route(message('rain', { contextId: 'c1' }))).toMatchObject({ agent: 'travel', why: 'context' });
    expect(await route(message('rain', { referenceTaskIds: ['t1'] }))).toMatchObject({
      agent: 'travel',
      why: 'reference',
    });
    expect(await route(message('rain', { contextId: 'new' }))).toMatchObject({ agent: 'weather', why: 'match' });
  });

  test('the agent of a hint on the message or on the request, by agent or by skill', async () => {
    const { route } = stand();
    const hint = (wish: JsonObject) => ({ metadata: { [ROUTE]: wish } });
    expect(await route(message('rain', hint({ agent: 'sums' })))).toMatchObject({ agent: 'sums', why: 'hint' });
    const onRequest = { message: message('rain') as JsonObject, ...hint({ skillId: 'travel.book' }) };
    expect(await route(onRequest)).toEqual({ kind: 'agent', agent: 'travel', why: 'hint', skillId: 'travel.book' });
    expect(await route(message('x', hint({ skillId: 'solve' })))).toMatchObject({ agent: 'sums' });
    await expect(route(message('x', hint({ skillId: 'forecast' })))).rejects.toMatchObject({
      reason: 'invalid_params',
      data: { candidates: ['weather.forecast', 'travel.forecast'] },
    });
    await expect(route(message('x', hint({ skillId: 'fly' })))).rejects.toMatchObject({ reason: 'invalid_params' });
  });

  test('G-2: the tenant selects an agent; an absent or hidden one is not found', async () => {
    const { route } = stand([weather, sums], { admission: showing({ ann: ['weather'] }) });
    const to = (tenant: string) => route({ message: message('x') as JsonObject, tenant });
    expect(await to('weather')).toMatchObject({ agent: 'weather', why: 'tenant' });
    await expect(to('sums')).rejects.toMatchObject({ reason: 'agent_not_found' });
    await expect(to('nobody')).rejects.toMatchObject({ reason: 'agent_not_found' });
  });

  test('the agent whose skill matches the words best', async () => {
    const { route } = stand();
    expect(await route(message('Is it going to rain in Bergen this weekend?'))).toEqual({
      kind: 'agent',
      agent: 'weather',
      why: 'match',
      skillId: 'weather.forecast',
      reasons: { matched: ['rain'] },
    });
    expect(await route(message('book me a hotel in Rome'))).toMatchObject({ skillId: 'travel.book' });
    expect(await route(message([{ data: { task: 'solve equation' } }]))).toMatchObject({ kind: 'agent' });
  });

  test('common words and stuffed skills have no effect', async () => {
    const { route } = stand();
    expect(await route(message('Please tell me something'))).toMatchObject({
      kind: 'ask',
      reasons: { unsure: 'no_match', matched: [] },
    });
    const greedy = new StaticAgent(
      'greedy',
      cardOf('Greedy', {
        skills: [{ id: 'all', name: 'All', description: 'rain hotels equations '.repeat(100), tags: ['everything'] }],
      }),
    );
    expect(await stand([greedy, weather, sums]).route(message('will it rain?'))).toMatchObject({ agent: 'weather' });
  });

  test('if the needs of a message fit different agents, asks the client and names each need’s agent', async () => {
    const { route } = stand();
    const text = 'Book two flights to Rome for Monday. Then tell me whether it will rain in Rome on Monday.';
    const decision = await route(message(text));
    expect(decision).toMatchObject({ kind: 'ask', reasons: { unsure: 'several' } });
    expect(decision.reasons?.needs?.map(({ agent }) => agent)).toEqual(['travel', 'weather']);
    const needs = decision.kind === 'ask' ? decision.candidates.map((each) => [each.agent, each.needs?.length]) : [];
    expect(needs).toEqual(
      expect.arrayContaining([
        ['travel', 1],
        ['weather', 1],
        ['sums', undefined],
      ]),
    );
    const one = 'Book two flights to Rome for Monday. Then book a hotel near the airport of Rome.';
    expect(await route(message(one))).toMatchObject({ agent: 'travel', reasons: { needs: [{}, {}] } });
  });

  test('asks the client if two different agents match almost equally', async () => {
    const skill = (id: string, description: string) =>
      cardOf(id, { skills: [{ id, name: id, description, tags: [] }] });
    const north = new StaticAgent('north', skill('Fjords', 'Plans walks along fjords'));
    const south = new StaticAgent('south', skill('Beaches', 'Plans walks along beaches'));
    const decision = await stand([north, south, sums]).route(message('plan walks for us'));
    expect(decision).toMatchObject({ kind: 'ask', reasons: { unsure: 'close', matched: ['plan', 'walk'] } });
    expect(await stand([north, south, sums]).route(message('plan walks on beaches'))).toMatchObject({
      agent: 'south',
      reasons: { next: { agent: 'north' } },
    });
  });

  test('a changed card changes the index, and the caller gets no agent that is hidden from it', async () => {
    const changing = new StaticAgent('changing', weather.card);
    const made = stand([changing, travel, sums], { admission: showing({ ann: ['changing', 'travel'] }) });
    expect(await made.route(message('will it rain?'))).toMatchObject({ agent: 'changing' });
    expect(await made.route(message('solve equations'))).toMatchObject({ kind: 'ask' });
    changing.card = sums.card;
    expect(await made.route(message('solve equations'))).toMatchObject({ agent: 'changing' });
  });

  test('agents that do not accept a part are excluded; if no agent accepts it, the error says so', async () => {
    const { route } = stand();
    const image: Part = { raw: 'AA==', mediaType: 'image/png' };
    expect(await route(message([{ text: 'what rain is this?' }, image]))).toMatchObject({
      agent: 'travel',
      why: 'only',
    });
    await expect(route(message([{ raw: 'AA==', mediaType: 'audio/wav' }]))).rejects.toMatchObject({
      reason: 'content_type_not_supported',
    });
  });

  test('accepted output modes decide between agents', async () => {
    const { route } = stand();
    const accepting = (mode: string) =>
      route({ message: message('hello') as JsonObject, configuration: { acceptedOutputModes: [mode] } });
    expect(await accepting('application/json')).toMatchObject({ agent: 'sums', why: 'only' });
    expect(await accepting('video/mp4')).toMatchObject({ kind: 'ask' });
  });

  test('an agent that is down is excluded while another one fits', async () => {
    const down = new StaticAgent('down', weather.card);
    down.status = 'down';
    const { route } = stand([down, weather, sums]);
    expect(await route(message('rain'))).toMatchObject({ agent: 'weather' });
    expect(await stand([down]).route(message('rain'))).toMatchObject({ agent: 'down' });
  });

  test('agents with equal scores give the same result every time', async () => {
    const { route } = stand([new StaticAgent('one', weather.card), new StaticAgent('two', weather.card), sums]);
    for (let i = 0; i < 5; i++) expect(await route(message('rain'))).toMatchObject({ agent: 'one' });
  });

  test('below the threshold the candidates are listed; without candidates no agent is found', async () => {
    const decision = await stand().route(message('hello'));
    expect(decision.kind).toBe('ask');
    expect(decision.kind === 'ask' && decision.candidates.map(({ agent }) => agent)).toEqual([
      'weather',
      'travel',
      'sums',
    ]);
    await expect(stand([]).route(message('hello'))).rejects.toMatchObject({ reason: 'agent_not_found' });
  });

  test('the first event of a stream contains the decision', async () => {
    const decision = { kind: 'agent', agent: 'sums', why: 'only' } as const;
    const status = { state: 'TASK_STATE_WORKING' } as const;
    const events = (async function* (): AsyncGenerator<Passed<StreamResponse>> {
      yield { value: { task: { id: 't', status } } };
      yield { value: { statusUpdate: { taskId: 't', contextId: 'c', status } }, text: 'as it came' };
    })();
    const answer = withRouteNote({ kind: 'stream', events }, decision);
    const seen: Passed<StreamResponse>[] = [];
    for await (const event of answer.kind === 'stream' ? answer.events : []) seen.push(event);
    expect(seen[0]?.value.task?.metadata).toEqual({ [ROUTE]: { agent: 'sums', why: 'only' } });
    expect(seen[1]?.text).toBe('as it came');
  });

  test('the metadata of an answer contains the decision', () => {
    const task: Task = { id: 't', status: { state: 'TASK_STATE_WORKING' }, metadata: { own: 1 } };
    const decision = { kind: 'agent', agent: 'sums', why: 'match', skillId: 'sums.solve' } as const;
    expect(withRoute(task, decision).metadata).toEqual({
      own: 1,
      [ROUTE]: { agent: 'sums', why: 'match', skillId: 'sums.solve' },
    });
    const answer: AgentAnswer = { kind: 'result', result: { value: { task }, text: '{}' } };
    expect(withRouteNote(answer, decision)).toEqual({
      kind: 'result',
      result: { value: { task: withRoute(task, decision) } },
    });
    expect(routeNote({ kind: 'ask', candidates: [] })).toEqual({ agent: null, why: 'ask' });
    const reasons = { unsure: 'close', matched: ['plan'], next: { agent: 'sums', score: 0.95 } } as const;
    const asked = { kind: 'ask', candidates: [], reasons } as const;
    const question = { ...task, metadata: { [ROUTE]: { agent: null, why: 'ask', candidates: ['sums'] } } };
    expect(withRoute(question, asked).metadata[ROUTE]).toEqual({
      agent: null,
      why: 'ask',
      candidates: ['sums'],
      reasons,
    });
    // The trace has no words of the message.
    expect(tracedRoute(asked)).toEqual({ why: 'ask', unsure: 'close', next: { agent: 'sums', score: 0.95 } });
  });
});

describe('the routing agent (G-4)', () => {
  const exchange = { cancellation: new Cancellation(), extensions: [], forward: {} };

  async function asked(text = 'hello', more: Partial<Message> = {}) {
    const made = stand();
    const { routingAgent } = made.router;
    const { value } = await routingAgent.send(ann, { value: { message: message(text, more) } }, exchange);
    const task = value.task!;
    made.records.add(ROUTING_AGENT, task.id, task.contextId!, task);
    const answer = async (given: Message) => {
      const reply = { ...given, taskId: task.id };
      return (await routingAgent.send(ann, { value: { message: reply } }, exchange)).value.task!;
    };
    return { ...made, routingAgent, task, answer };
  }

  test('asks with a task that waits for input and lists the candidates', async () => {
    const { task } = await asked('hello', { contextId: 'mine' });
    expect(task.status.state).toBe('TASK_STATE_INPUT_REQUIRED');
    expect(task.contextId).toBe('mine');
    expect(task.status.message?.parts[0]?.text).toContain('- travel: Travel planner. The Travel planner agent');
    expect(task.status.message?.parts[1]?.data).toMatchObject({
      question: 'agent',
      candidates: [{ agent: 'weather' }, { agent: 'travel' }, { agent: 'sums' }],
    });
    expect(task.metadata?.[ROUTE]).toMatchObject({ why: 'ask', agent: null });
  });

  test('the answer to the question goes to the routing agent; other messages of the same context do not', async () => {
    const { task, route } = await asked();
    expect(await route(message('sums', { taskId: task.id }))).toEqual({
      kind: 'agent',
      agent: ROUTING_AGENT,
      why: 'task',
    });
    expect(await route(message('rain', { contextId: task.contextId! }))).toMatchObject({ agent: 'weather' });
  });

  test.each([
    ['the name in words', message('The travel planner, please')],
    ['the name alone', message('travel')],
    ['data', message([{ data: { agent: 'travel' } }])],
    ['a hint', message('that one', { metadata: { [ROUTE]: { skillId: 'travel.forecast' } } })],
  ])('sends the first message to the agent named by %s', async (_, reply) => {
    const { answers, handed, answer, task } = await asked('hello');
    answers.push({
      task: {
        id: 'theirs',
        contextId: 'their-context',
        status: { state: 'TASK_STATE_COMPLETED' },
        artifacts: [{ artifactId: 'a', parts: [{ text: 'done' }] }],
      },
    });
    const ended = await answer(reply);
    expect(handed).toHaveLength(1);
    expect(handed[0]).toMatchObject({ agent: 'travel', operation: 'SendMessage' });
    const sent = (handed[0]!.request.value as { message: Message }).message;
    expect(sent.parts).toEqual([{ text: 'hello' }]);
    expect(sent.messageId).toBe('m1');
    // The ids are the routing agent's own, and the chosen agent does not know them (C-13).
    expect(sent).not.toHaveProperty('taskId');
    expect(sent).not.toHaveProperty('contextId');
    expect(ended).toMatchObject({ id: task.id, status: { state: 'TASK_STATE_COMPLETED' } });
    expect(ended.artifacts?.[0]?.parts).toEqual([{ text: 'done' }]);
    expect(ended.status.message?.referenceTaskIds).toEqual(['theirs']);
    expect(ended.metadata?.[ROUTE]).toMatchObject({ agent: 'travel', taskId: 'theirs', contextId: 'their-context' });
  });

  test('a direct reply of the agent ends the question', async () => {
    const { answers, answer } = await asked();
    answers.push({ message: { messageId: 'x', role: 'ROLE_AGENT', parts: [{ text: 'hi' }] } });
    const ended = await answer(message('sums'));
    expect(ended.status).toMatchObject({ state: 'TASK_STATE_COMPLETED', message: { parts: [{ text: 'hi' }] } });
  });

  test('an answer that names no agent or two agents repeats the question', async () => {
    const { answer, handed } = await asked();
    for (const text of ['nobody', 'weather or sums']) {
      expect((await answer(message(text))).status.state).toBe('TASK_STATE_INPUT_REQUIRED');
    }
    expect(handed).toEqual([]);
  });

  test('its tasks can be read, followed and canceled', async () => {
    const { routingAgent, task } = await asked();
    const id = { id: task.id };
    expect((await routingAgent.getTask(ann, id, exchange)).value).toEqual(task);
    const events = [];
    for await (const { value } of await routingAgent.subscribe(ann, id, exchange)) events.push(value);
    expect(events).toEqual([{ task }]);
    expect((await routingAgent.cancelTask(ann, id, exchange)).value.status.state).toBe('TASK_STATE_CANCELED');
    await expect(routingAgent.getTask(callerNamed('bob'), id, exchange)).rejects.toMatchObject({
      reason: 'task_not_found',
    });
  });
});
