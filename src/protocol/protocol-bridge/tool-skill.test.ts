import { expect, test } from 'vitest';
import { type Part, ROUTE } from '../a2a/model.js';
import { problemsWith, skillOf, type Tool, wishIn } from './tool-skill.js';

const FORECAST: Tool = {
  name: 'weather__forecast',
  definition: {
    name: 'weather__forecast',
    title: 'Forecast',
    description: 'Says what the weather will be',
    annotations: { readOnlyHint: true, destructiveHint: false },
    inputSchema: {
      type: 'object',
      properties: { city: { type: 'string' }, days: { type: 'integer' } },
      required: ['city'],
    },
  },
};
const ECHO: Tool = { name: 'files__echo', definition: { name: 'files__echo', inputSchema: { type: 'object' } } };

const asks = (parts: Part[], metadata?: object) => ({
  message: { messageId: 'm', role: 'ROLE_USER' as const, parts },
  ...(metadata && { metadata: metadata as never }),
});

test('a tool as a skill', () => {
  expect(skillOf(FORECAST)).toEqual({
    id: 'weather__forecast',
    name: 'Forecast',
    description: 'Says what the weather will be\nArguments: city (string), days? (integer)',
    tags: ['mcp', 'readOnlyHint'],
    examples: ['{"tool":"weather__forecast","arguments":{"city":"…"}}'],
    inputModes: ['application/json', 'text/plain'],
    outputModes: ['text/plain'],
  });
});

test.each<[string, ReturnType<typeof asks>, string | undefined, object]>([
  [
    'the hint',
    asks([{ data: { city: 'Rome' } }], { [ROUTE]: { skillId: 'weather__forecast' } }),
    FORECAST.name,
    { city: 'Rome' },
  ],
  [
    'the hint and text',
    asks([{ text: 'Rome' }], { [ROUTE]: { skillId: 'forecast' } }),
    FORECAST.name,
    { city: 'Rome' },
  ],
  [
    'data',
    asks([{ data: { tool: 'weather__forecast', arguments: { city: 'Rome' } } }]),
    FORECAST.name,
    { city: 'Rome' },
  ],
  ['JSON text', asks([{ text: '{"skill":"echo","arguments":{"x":1}}' }]), ECHO.name, { x: 1 }],
  ['nothing', asks([{ text: 'do something' }]), undefined, {}],
])('the tool is chosen by %s', (_, request, tool, args) => {
  const wish = wishIn(request, [FORECAST, ECHO]);
  expect(wish.tool?.name).toBe(tool);
  expect(wish.args).toEqual(args);
});

test('the only tool takes plain text', () => {
  expect(wishIn(asks([{ text: 'Rome' }]), [FORECAST])).toEqual({ tool: FORECAST, args: { city: 'Rome' } });
});

test('what is wrong with arguments', () => {
  expect(problemsWith(FORECAST, {})).toEqual(['"city" is missing']);
  expect(problemsWith(FORECAST, { city: 'Rome', days: 1.5 })).toEqual(['"days" must be of type integer']);
  expect(problemsWith(FORECAST, { city: 'Rome', days: 2 })).toEqual([]);
});

test('what is said now is put on top of what was given, and text fills what is still open', () => {
  const both: Tool = {
    ...FORECAST,
    definition: { inputSchema: { ...(FORECAST.definition['inputSchema'] as object), required: ['city', 'days'] } },
  };
  expect(wishIn(asks([{ text: 'Rome' }]), [both], { days: 2 }).args).toEqual({ days: 2, city: 'Rome' });
  expect(wishIn(asks([{ data: { days: 3 } }]), [both], { days: 2, city: 'Oslo' }).args).toEqual({
    days: 3,
    city: 'Oslo',
  });
});

test('a short name is good while only one tool has it, and one of the front card is understood', () => {
  const other: Tool = { name: 'old__forecast', definition: { name: 'old__forecast' } };
  const tools = [FORECAST, other, ECHO];
  expect(wishIn(asks([{ data: { tool: 'forecast' } }]), tools).tool).toBeUndefined();
  expect(wishIn(asks([{ data: { tool: 'echo' } }]), tools).tool).toBe(ECHO);
  const hint = { [ROUTE]: { skillId: 'desk.old__forecast' } };
  expect(wishIn(asks([{ text: 'x' }], hint), tools).tool).toBe(other);
});
