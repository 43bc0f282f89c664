import { expect, test } from 'vitest';
import { ProtocolError } from '../../../protocol/errors.js';
import type { RecordedChoice } from '../../replica-choice/choice-log.js';
import { seeded } from '../../replica-choice/random.js';
import type { AgentAnswer } from '../gateway.js';
import { EqualSkills } from './choice-among-equal-skills.js';

const answer = (state: string): AgentAnswer => ({
  kind: 'result',
  result: { value: { task: { id: '1', contextId: '1', status: { state } } } },
});
const done = async (): Promise<AgentAnswer> => answer('TASK_STATE_COMPLETED');

function recording() {
  const recorded: RecordedChoice[] = [];
  const record = (choice: RecordedChoice): void => void recorded.push(choice);
  return { recorded, choices: { wants: () => true, record, latest: async () => [] } };
}

test('failing agents get fewer messages, and each choice is recorded with its probability', async () => {
  const { recorded, choices } = recording();
  const skills = new EqualSkills({ objective: 100, choices, random: seeded(4) });
  const counts: Record<string, number> = { a: 0, b: 0, c: 0 };
  for (let message = 0; message < 120; message += 1) {
    const choice = skills.choose('forecast', 'SendMessage', ['a', 'b', 'c']);
    counts[choice.agent]! += 1;
    const send = async (): Promise<AgentAnswer> => {
      if (choice.agent === 'a') throw new ProtocolError('upstream_unavailable', 'gone', { outcome: 'not_executed' });
      return answer(choice.agent === 'b' ? 'TASK_STATE_FAILED' : 'TASK_STATE_COMPLETED');
    };
    await choice.run(send).catch(() => {});
  }
  expect(counts['c']).toBeGreaterThan(90);
  expect(recorded.length).toBe(120);
  expect(recorded.every(({ pool, propensity }) => pool === 'skill:forecast' && propensity > 0)).toBe(true);
});

test('a caller never gets an agent that is hidden from it', async () => {
  const skills = new EqualSkills({ objective: 100, random: seeded(4) });
  for (let message = 0; message < 50; message += 1) await skills.choose('s', 'SendMessage', ['a', 'b']).run(done);
  for (let message = 0; message < 50; message += 1)
    expect(['b', 'c']).toContain(skills.choose('s', 'SendMessage', ['b', 'c']).agent);
});

test('a message that an interceptor refuses does not count as load', async () => {
  const { recorded, choices } = recording();
  const skills = new EqualSkills({ objective: 100, choices, random: seeded(4) });
  for (let message = 0; message < 50; message += 1) skills.choose('s', 'SendMessage', ['a', 'b']);
  const open = skills.choose('s', 'SendMessage', ['a', 'b']);
  await open.run(async () => {
    await skills.choose('s', 'SendMessage', ['a', 'b']).run(done);
    return answer('TASK_STATE_COMPLETED');
  });
  const [nested] = recorded;
  const loads = Object.fromEntries(nested!.among.map(({ replica, inFlight }) => [replica, inFlight]));
  expect(loads).toEqual({ a: 0, b: 0, [open.agent]: 1 });
});

test('an error that the caller causes does not count against the agent', async () => {
  const { recorded, choices } = recording();
  const skills = new EqualSkills({ objective: 100, choices });
  const choice = skills.choose('s', 'SendMessage', ['a', 'b']);
  const refused = new ProtocolError('content_type_not_supported', 'no', { outcome: 'not_executed' });
  await expect(choice.run(() => Promise.reject(refused))).rejects.toBe(refused);
  expect(recorded).toEqual([]);
});
