import { expect, test } from 'vitest';
import { type Part, ROUTE } from '../a2a/model.js';
import { problemsWith, selectTool, skillOf, type Tool } from './tool-skill.js';

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
  const selected = selectTool(request, [FORECAST, ECHO]);
  expect(selected.tool?.name).toBe(tool);
  expect(selected.args).toEqual(args);
});

test('an agent with one tool accepts plain text', () => {
  expect(selectTool(asks([{ text: 'Rome' }]), [FORECAST])).toEqual({ tool: FORECAST, args: { city: 'Rome' } });
});

test('reports the problems of arguments', () => {
  expect(problemsWith(FORECAST, {})).toEqual(['"city" is missing']);
  expect(problemsWith(FORECAST, { city: 'Rome', days: 1.5 })).toEqual(['"days" must be of type integer']);
  expect(problemsWith(FORECAST, { city: 'Rome', days: 2 })).toEqual([]);
});

test('new arguments override earlier ones, and text fills the missing argument', () => {
  const both: Tool = {
    ...FORECAST,
    definition: { inputSchema: { ...(FORECAST.definition['inputSchema'] as object), required: ['city', 'days'] } },
  };
  expect(selectTool(asks([{ text: 'Rome' }]), [both], { days: 2 }).args).toEqual({ days: 2, city: 'Rome' });
  expect(selectTool(asks([{ data: { days: 3 } }]), [both], { days: 2, city: 'Oslo' }).args).toEqual({
    days: 3,
    city: 'Oslo',
  });
});

test('accepts a short name if only one tool matches, and a name from the gateway card', () => {
  const other: Tool = { name: 'old__forecast', definition: { name: 'old__forecast' } };
  const tools = [FORECAST, other, ECHO];
  expect(selectTool(asks([{ data: { tool: 'forecast' } }]), tools).tool).toBeUndefined();
  expect(selectTool(asks([{ data: { tool: 'echo' } }]), tools).tool).toBe(ECHO);
  const hint = { [ROUTE]: { skillId: 'desk.old__forecast' } };
  expect(selectTool(asks([{ text: 'x' }], hint), tools).tool).toBe(other);
});

test('a tool that takes files declares their media types', () => {
  const modes = (schema: object) =>
    skillOf({ name: 't', definition: { inputSchema: { type: 'object', properties: { file: schema } } } as never })
      .inputModes;
  expect(modes({ type: 'string' })).toEqual(['application/json', 'text/plain']);
  expect(modes({ type: 'string', format: 'uri' })).toEqual(['application/json', 'text/plain', '*/*']);
  expect(modes({ type: 'string', contentEncoding: 'base64', contentMediaType: 'image/png' })).toContain('image/png');
});
