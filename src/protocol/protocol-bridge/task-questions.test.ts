import { expect, test } from 'vitest';
import type { Message, Part, Task } from '../a2a/model.js';
import type { InputRequest } from '../mcp/model.js';
import { answerParts, answersIn, questionKey, questionOf, questionParts } from './task-questions.js';

const asking = (parts: Part[], state: Task['status']['state'] = 'TASK_STATE_INPUT_REQUIRED'): Task => ({
  id: 't',
  status: { state, message: { messageId: 'm1', role: 'ROLE_AGENT', parts } },
});

test('a question in text becomes a form with one field', () => {
  expect(questionOf(asking([{ text: 'Where to?' }]))).toEqual({
    method: 'elicitation/create',
    params: {
      mode: 'form',
      message: 'Where to?',
      requestedSchema: {
        type: 'object',
        properties: { response: { type: 'string', title: 'Answer' } },
        required: ['response'],
      },
    },
  });
  expect(questionKey(asking([]))).toBe('m1');
});

test('a flat schema in data becomes the form; a nested one does not', () => {
  const flat = { type: 'object', properties: { city: { type: 'string' } } };
  const deep = { type: 'object', properties: { city: { type: 'object' } } };
  expect(questionOf(asking([{ text: 'x' }, { data: flat }])).params?.['requestedSchema']).toEqual(flat);
  expect(questionOf(asking([{ text: 'x' }, { data: { requestedSchema: flat } }])).params?.['requestedSchema']).toEqual(
    flat,
  );
  expect(questionOf(asking([{ text: 'x' }, { data: deep }])).params?.['requestedSchema']).not.toEqual(deep);
});

test('a task that needs authorisation directs its client to the URL it names', () => {
  for (const part of [{ url: 'https://x.example/in' }, { data: { url: 'https://x.example/in' } }]) {
    expect(questionOf(asking([{ text: 'Sign in' }, part], 'TASK_STATE_AUTH_REQUIRED')).params).toEqual({
      mode: 'url',
      message: 'Sign in',
      url: 'https://x.example/in',
    });
  }
});

test.each([
  [{ action: 'accept', content: { response: 'Rome' } }, [{ text: 'Rome' }]],
  [
    { action: 'accept', content: { city: 'Rome', days: 2 } },
    [{ text: 'city: Rome\ndays: 2' }, { data: { city: 'Rome', days: 2 }, mediaType: 'application/json' }],
  ],
  [{ action: 'decline' }, [{ data: { action: 'decline' }, mediaType: 'application/json' }]],
  [{ action: 'cancel' }, undefined],
])('translates the answer %j', (answer, parts) => {
  expect(answerParts(answer)).toEqual(parts);
});

const FORM: InputRequest = {
  method: 'elicitation/create',
  params: {
    mode: 'form',
    message: 'How many?',
    requestedSchema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
  },
};
const says = (...parts: Part[]): Message => ({ messageId: 'm', role: 'ROLE_USER', parts });

test('a tool’s question becomes text and data', () => {
  expect(questionParts('k', FORM)).toEqual([
    { text: 'How many?' },
    { data: { key: 'k', requestedSchema: FORM.params?.['requestedSchema'] }, mediaType: 'application/json' },
  ]);
});

test.each<[string, Message, object | undefined]>([
  ['text for the one field', says({ text: '3' }), { k: { action: 'accept', content: { n: 3 } } }],
  ['data that is the content', says({ data: { n: 3 } }), { k: { action: 'accept', content: { n: 3 } } }],
  ['data that names the key', says({ data: { k: { n: 3 } } }), { k: { action: 'accept', content: { n: 3 } } }],
  [
    'data with key and content',
    says({ data: { key: 'k', content: { n: 3 } } }),
    { k: { action: 'accept', content: { n: 3 } } },
  ],
  ['JSON in text', says({ text: '{"n":3}' }), { k: { action: 'accept', content: { n: 3 } } }],
  ['a refusal', says({ data: { action: 'decline' } }), { k: { action: 'decline' } }],
  ['text that is not a number', says({ text: 'three' }), undefined],
  ['no readable part', says({ url: 'x://y' }), undefined],
])('reads an answer from %s', (_, message, answers) => {
  expect(answersIn(message, { k: FORM })).toEqual(answers);
});

test('a task that needs authorisation without a URL asks for confirmation and for no secret (ELI-03)', () => {
  const { params } = questionOf(asking([{ text: 'Sign in' }], 'TASK_STATE_AUTH_REQUIRED'));
  expect(params).toEqual({ mode: 'form', message: 'Sign in', requestedSchema: { type: 'object', properties: {} } });
  expect(answerParts({ action: 'accept', content: {} })).toEqual([{ text: 'accepted' }]);
});
