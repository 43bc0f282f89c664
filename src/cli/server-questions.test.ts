import { expect, test } from 'vitest';
import { argumentsOf } from './commands/call.js';
import { answerer } from './server-questions.js';

function at(...answers: (string | undefined)[]) {
  const asked: string[] = [];
  const said: string[] = [];
  const io = {
    ask: async (question: string) => {
      asked.push(question);
      return answers.shift();
    },
    stderr: (text: string) => void said.push(text),
  };
  return { asked, said, answer: answerer(io) };
}

const FORM = {
  message: 'Book\u001b[31m?',
  properties: {
    city: { type: 'string', title: 'City' },
    nights: { type: 'integer', default: 2 },
    room: { type: 'string', enum: ['single', 'double'] },
    late: { type: 'boolean' },
  },
  required: ['city', 'room'],
};

test('a form is asked field by field, with defaults, choices and corrections', async () => {
  const { answer, asked, said } = at('Oslo', '', 'triple', 'double', '');
  expect(await answer(FORM)).toEqual({ action: 'accept', content: { city: 'Oslo', nights: 2, room: 'double' } });
  expect(asked[0]).toContain('City');
  expect(asked[2]).toContain('single, double');
  expect(said.join('')).not.toContain('\u001b');
});

test('the end of the input, or no terminal, cancels', async () => {
  expect(await at('Oslo', undefined).answer(FORM)).toEqual({ action: 'cancel' });
  expect(await answerer({ stderr: () => {} })(FORM)).toEqual({ action: 'cancel' });
});

test('a page is shown, and the person says whether it is done', async () => {
  const question = { message: 'Sign in', url: 'https://login.example.com/x', properties: {}, required: [] };
  const { answer, said } = at('', 'n');
  expect(await answer(question)).toEqual({ action: 'accept' });
  expect(said.join('')).toContain('https://login.example.com/x');
  expect(await answer(question)).toEqual({ action: 'decline' });
});

test('arguments get the types of the schema', () => {
  const inputSchema = {
    properties: { n: { type: 'integer' }, s: { type: 'string' }, l: { type: 'array' }, b: { type: 'boolean' } },
  };
  expect(argumentsOf(['n=3', 's=3', 'l=[1]', 'b=true', 'x=a=b', 'y:={"z":1}'], { inputSchema })).toEqual({
    ...{ n: 3, s: '3', l: [1], b: true, x: 'a=b', y: { z: 1 } },
  });
  for (const wrong of ['n=three', 'word', 'y:={', 'b=maybe'])
    expect(() => argumentsOf([wrong], { inputSchema })).toThrow();
  expect(() => argumentsOf(['s=1', 's=2'], { inputSchema })).toThrow('twice');
});
