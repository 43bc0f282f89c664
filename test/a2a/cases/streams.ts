/** Streams: order, end, and late subscribers. */
import { type Event, textOf } from '../../fixtures/a2a/views.js';
import { all, assert, type Case, expectError, held, idOf, mark, say, taskOf } from '../case.js';

const pieces = (events: readonly Event[]): Extract<Event, { kind: 'artifact' }>[] =>
  events.flatMap((event) => (event.kind === 'artifact' ? [event] : []));

/** The text of an artifact after all events. */
function folded(events: readonly Event[]): string {
  let text = '';
  for (const event of events) {
    if (event.kind === 'task' && event.task.artifacts[0]) text = textOf(event.task.artifacts[0].parts);
    if (event.kind === 'artifact')
      text = event.append ? text + textOf(event.artifact.parts) : textOf(event.artifact.parts);
  }
  return text;
}

/** The `append` members of the artifact updates on the wire. */
function appends(body: unknown): boolean[] {
  const found: boolean[] = [];
  for (const one of body as {
    artifactUpdate?: { append?: boolean };
    payload?: { $case: string; value: { append: boolean } };
  }[]) {
    if (one.artifactUpdate) found.push(one.artifactUpdate.append === true);
    if (one.payload?.$case === 'artifactUpdate') found.push(one.payload.value.append);
  }
  return found;
}

/** Up to 0.3 the last event, and no other, is marked as final. */
function checkFinal(version: string, events: readonly Event[]): void {
  if (version === '1.0') return;
  const marks = events.map((event) => event.kind === 'status' && event.final === true);
  if (events.at(-1)?.kind === 'message') return;
  assert.equal(marks.at(-1), true, `the last event is not final: ${JSON.stringify(events.at(-1))}`);
  assert.ok(!marks.slice(0, -1).includes(true), 'an event before the last is final');
}

export const STREAMS: readonly Case[] = [
  {
    name: 'a stream has its events in order, and its artifact in chunks',
    ids: ['S-41', 'S-42', 'S-44', 'S-45', 'G-23', 'G-40', 'C-10'],
    run: async ({ client, row, column }) => {
      const events = await all(client.stream(say(`stream ${mark()}`)));
      const [first, last] = [events[0], events.at(-1)];
      if (row.version === '0.1') assert.notEqual(first?.kind, 'task');
      else if (row.version === '1.0') assert.equal(first?.kind, 'task');
      assert.ok(last?.kind === 'status' && last.state === 'completed', `the last event is ${JSON.stringify(last)}`);
      checkFinal(row.version, events);
      const ids = new Set(events.map(idOf));
      assert.equal(ids.size, 1, `several tasks in one stream: ${[...ids]}`);
      if (row.blind.includes('append'))
        assert.equal(
          pieces(events)
            .map(({ artifact }) => textOf(artifact.parts))
            .join(''),
          'one two three',
        );
      else assert.equal(folded(events), 'one two three');
      if (!column.streaming) return;
      assert.deepEqual(
        pieces(events).map(({ artifact }) => textOf(artifact.parts)),
        ['one ', 'two ', 'three'],
      );
      assert.deepEqual(
        pieces(events).map(({ lastChunk }) => lastChunk),
        [false, false, true],
      );
      const flags = row.blind.includes('append')
        ? appends((await client.wire()).body)
        : pieces(events).map(({ append }) => append);
      assert.deepEqual(flags, [false, true, true]);
      const task = await client.get([...ids][0]!);
      assert.equal(textOf(task.artifacts[0]?.parts), 'one two three');
    },
  },
  {
    name: 'a stream of a direct reply',
    ids: ['S-41'],
    run: async ({ client, row, column }) => {
      const text = `hello ${mark()}`;
      const events = await all(client.stream(say(text)));
      if (row.version !== '0.1' && column.version !== '0.1') {
        assert.deepEqual(
          events.map(({ kind }) => kind),
          ['message'],
        );
        assert.equal(textOf(events[0]?.kind === 'message' ? events[0].message.parts : []), `hello back: ${text}`);
      } else {
        const last = events.at(-1);
        const state = last?.kind === 'status' ? last.state : last?.kind === 'task' ? last.task.state : undefined;
        assert.equal(state, 'completed');
        checkFinal(row.version, events);
      }
    },
  },
  {
    name: 'a stream ends with a question',
    ids: ['S-41', 'S-42'],
    run: async ({ client, row }) => {
      const events = await all(client.stream(say(`ask ${mark()}`)));
      const last = events.findLast((event) => event.kind === 'status' || event.kind === 'task');
      const state = last?.kind === 'status' ? last.state : last?.kind === 'task' ? last.task.state : undefined;
      assert.equal(state, 'input-required');
      checkFinal(row.version, events);
      const answers = await all(
        client.stream(say('blue', { taskId: events.map(idOf).find((id) => id !== undefined)! })),
      );
      const end = answers.at(-1);
      assert.ok(end?.kind === 'status' && end.state === 'completed');
      checkFinal(row.version, answers);
    },
  },
  {
    name: 'subscribing to a running task',
    ids: ['S-43', 'G-25', 'G-40'],
    run: async ({ client, row }) => {
      const { id, release } = await held(client);
      const events = await all(client.subscribe(id), release);
      if (row.version === '1.0') assert.equal(events[0]?.kind, 'task');
      const last = events.at(-1);
      assert.ok(last?.kind === 'status' && last.state === 'completed', `the last event is ${JSON.stringify(last)}`);
      checkFinal(row.version, events);
    },
  },
  {
    name: 'two subscribers get the same events',
    ids: ['S-42'],
    run: async ({ client, connect }) => {
      const other = await connect();
      const { id, release } = await held(client);
      let joined = 0;
      const opened = (): void => {
        joined += 1;
        if (joined === 2) release();
      };
      const [one, two] = await Promise.all([client, other].map((each) => all(each.subscribe(id), opened)));
      const shape = (events: readonly Event[]): unknown[] =>
        events
          .filter(({ kind }) => kind !== 'task')
          .map((event) => (event.kind === 'status' ? event.state : event.kind));
      // The later subscriber misses the earlier events and no others.
      const [short, long] = [shape(one!), shape(two!)].sort((a, b) => a.length - b.length);
      assert.ok(short!.length > 0, 'the subscriber got no events');
      assert.deepEqual(long!.slice(-short!.length), short);
      other.close();
    },
  },
  {
    name: 'subscribing to a finished task',
    ids: ['S-43'],
    run: async ({ client, row }) => {
      const task = taskOf(await client.send(say(`echo ${mark()}`)));
      if (row.version === '1.0') {
        await expectError(client, 'UNSUPPORTED_OPERATION', () => all(client.subscribe(task.id)), { stream: true });
        return;
      }
      // Before 1.0 the answer is either an error, or the task and the end of the stream.
      try {
        const events = await all(client.subscribe(task.id));
        const last = events.at(-1);
        const state = last?.kind === 'task' ? last.task.state : last?.kind === 'status' ? last.state : undefined;
        assert.equal(state, 'completed');
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
        await expectError(client, 'UNSUPPORTED_OPERATION', () => all(client.subscribe(task.id)), { stream: true });
      }
    },
  },
  {
    name: 'subscribing to an unknown task',
    ids: ['S-43', 'S-45'],
    run: ({ client }) => expectError(client, 'TASK_NOT_FOUND', () => all(client.subscribe(mark())), { stream: true }),
  },
];
