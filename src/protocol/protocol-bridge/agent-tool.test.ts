import { expect, test } from 'vitest';
import type { AgentCard, Task } from '../a2a/model.js';
import { ROUTE } from '../a2a/model.js';
import { replyResult, requestOf, taskResult, toolsOf } from './agent-tool.js';
import { TOOLS_EXTENSION } from './tool-skill.js';

const CARD: AgentCard = {
  name: 'Planner',
  description: 'Plans trips.',
  supportedInterfaces: [],
  version: '1',
  capabilities: {},
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [
    { id: 'plan trip!', name: 'Plan', description: 'Plans a trip', tags: [], examples: ['to Rome'] },
    { id: 'plan trip?', name: 'Plan again', description: 'Plans a trip anew', tags: [] },
  ],
};

test('each skill is a tool with a valid name, and one more tool sends plain messages', () => {
  const tools = toolsOf(CARD);
  expect(tools.map(({ name, skill }) => [name, skill])).toEqual([
    ['plan_trip_', 'plan trip!'],
    ['plan_trip__2', 'plan trip?'],
    ['send_message', undefined],
  ]);
  expect(tools[0]?.definition).toMatchObject({
    title: 'Plan',
    description: expect.stringContaining('Examples: "to Rome"'),
    annotations: { openWorldHint: true },
    execution: { taskSupport: 'optional' },
  });
});

test('arguments become the parts of a message, with the skill as a hint', () => {
  const [tool] = toolsOf(CARD);
  const request = requestOf(
    tool!,
    {
      message: 'hi',
      data: [1],
      files: [{ uri: 'https://x.example/a', name: 'a' }, { base64: 'AAAA' }],
      contextId: 'c',
    },
    'm',
  );
  expect(request).toEqual({
    message: {
      messageId: 'm',
      role: 'ROLE_USER',
      contextId: 'c',
      parts: [
        { text: 'hi' },
        { data: [1], mediaType: 'application/json' },
        { url: 'https://x.example/a', filename: 'a' },
        { raw: 'AAAA' },
      ],
      metadata: { [ROUTE]: { skillId: 'plan trip!' } },
    },
    metadata: { [ROUTE]: { skillId: 'plan trip!' } },
  });
});

test.each([
  [{}, 'One of "message"'],
  [{ message: 1 }, '"message" must be a string'],
  [{ files: [{}] }, 'needs a "uri" or "base64"'],
  [{ message: 'x', referenceTaskIds: 'y' }, '"referenceTaskIds" must be'],
])('refuses the arguments %j and names the argument', (args, message) => {
  expect(() => requestOf(toolsOf(CARD)[0]!, args, 'm')).toThrow(message);
});

const task = (state: Task['status']['state'], more: Partial<Task> = {}): Task => ({
  id: 't',
  contextId: 'c',
  status: {
    state,
    message: { messageId: 'm', role: 'ROLE_AGENT', parts: [{ text: 'status' }] },
  },
  ...more,
});

test('a completed task returns its artifacts, or its status message if it has none', () => {
  const artifacts = [{ artifactId: 'a', name: 'plan', parts: [{ text: 'go' }, { data: { day: 1 } }] }];
  expect(taskResult('planner', task('TASK_STATE_COMPLETED', { artifacts }))).toEqual({
    content: [
      { type: 'text', text: 'go' },
      { type: 'text', text: '{"day":1}' },
    ],
    structuredContent: {
      state: 'completed',
      taskId: 't',
      contextId: 'c',
      text: 'go',
      data: [{ day: 1 }],
      artifacts: [{ artifactId: 'a', name: 'plan' }],
    },
    _meta: { 'parley/a2a': { agent: 'planner', taskId: 't', contextId: 'c', state: 'completed' } },
  });
  expect(taskResult('planner', task('TASK_STATE_COMPLETED'))['content']).toEqual([{ type: 'text', text: 'status' }]);
});

test.each(['TASK_STATE_FAILED', 'TASK_STATE_REJECTED', 'TASK_STATE_CANCELED'] as const)(
  '%s is a tool error for the model, not a protocol error',
  (state) => {
    expect(taskResult('planner', task(state))).toMatchObject({ isError: true });
  },
);

test('a task that needs input tells the model how to answer if the client cannot be asked', () => {
  const result = taskResult('planner', task('TASK_STATE_INPUT_REQUIRED'));
  expect(result['isError']).toBeUndefined();
  expect(JSON.stringify(result['content'])).toContain('call this tool again with taskId');
});

test('a reply without a task', () => {
  const message = { messageId: 'm', role: 'ROLE_AGENT' as const, contextId: 'c', parts: [{ text: 'hi' }] };
  expect(replyResult('planner', message)).toMatchObject({
    content: [{ type: 'text', text: 'hi' }],
    structuredContent: { state: 'message', contextId: 'c', text: 'hi' },
  });
});

test('a skill with a schema in the card takes its own arguments, as one data part', () => {
  const inputSchema = { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] };
  const extension = { uri: TOOLS_EXTENSION, params: { tools: { 'plan trip!': { inputSchema }, other: 1 } } };
  const [typed, plain] = toolsOf({ ...CARD, capabilities: { extensions: [extension] } });
  expect(typed!.definition['inputSchema']).toEqual(inputSchema);
  expect(requestOf(typed!, { to: 'Rome' }, 'm').message.parts).toEqual([
    { data: { to: 'Rome' }, mediaType: 'application/json' },
  ]);
  expect(plain!.typed).toBe(false);
  const waiting: Task = { id: 't', status: { state: 'TASK_STATE_INPUT_REQUIRED' } };
  expect(JSON.stringify(taskResult('planner', waiting, typed))).toContain('the tool send_message with taskId');
  expect(JSON.stringify(taskResult('planner', waiting, plain))).toContain('this tool again with taskId');
});
