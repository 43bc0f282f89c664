// An MCP server of revision 2025-11-25 over stdio: units of measure. One JSON-RPC message a line, after a handshake.
//   node examples/units.mjs
import { createInterface } from 'node:readline';

const REVISIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];

/** How many metres, kilograms or litres one of each is. */
const units = {
  length: { mm: 0.001, cm: 0.01, m: 1, km: 1000, inch: 0.0254, foot: 0.3048, yard: 0.9144, mile: 1609.344 },
  mass: { g: 0.001, kg: 1, ounce: 0.028349523125, pound: 0.45359237, stone: 6.35029318 },
  volume: { ml: 0.001, l: 1, 'cup US': 0.2365882365, 'gallon US': 3.785411784, 'gallon imperial': 4.54609 },
};
const text = (value) => ({ content: [{ type: 'text', text: String(value) }] });

const tools = {
  convert: {
    description: 'Converts a value from one unit to another. A plain "gallon" makes it ask which one is meant.',
    inputSchema: {
      type: 'object',
      properties: { value: { type: 'number' }, from: { type: 'string' }, to: { type: 'string' } },
      required: ['value', 'from', 'to'],
    },
    run: async ({ value, from, to }) => {
      if (typeof value !== 'number' || !from || !to)
        throw new Error('Give value as a number, and the units from and to');
      const [source, target] = [await which(from), await which(to)];
      const table = Object.values(units).find((kind) => source in kind && target in kind);
      if (!table) throw new Error(`Cannot convert ${source} to ${target}`);
      return text(
        `${value} ${source} = ${Number(((value * table[source]) / table[target]).toPrecision(10))} ${target}`,
      );
    },
  },
  list_units: {
    description: 'Lists the units of a kind: length, mass or volume.',
    inputSchema: { type: 'object', properties: { kind: { enum: Object.keys(units) } }, required: ['kind'] },
    run: async ({ kind }) => text(Object.keys(units[kind]).join(', ')),
  },
};

/** Asks the person at the other end, in the middle of the call, where the client can ask and the unit is ambiguous. */
async function which(unit) {
  if (unit !== 'gallon') return unit;
  if (!client.elicitation) return 'gallon US';
  const { action, content } = await ask('elicitation/create', {
    message: 'Which gallon?',
    requestedSchema: {
      type: 'object',
      properties: { gallon: { type: 'string', enum: ['gallon US', 'gallon imperial'] } },
      required: ['gallon'],
    },
  });
  if (action !== 'accept') throw new Error('Nobody said which gallon is meant');
  return content.gallon;
}

const methods = {
  initialize: ({ protocolVersion, capabilities }) => {
    client = capabilities;
    return {
      protocolVersion: REVISIONS.includes(protocolVersion) ? protocolVersion : REVISIONS[0],
      capabilities: { tools: {}, resources: {}, prompts: {} },
      serverInfo: { name: 'example-units', version: '1.0.0' },
      instructions: 'Use convert for every unit of measure instead of calculating.',
    };
  },
  ping: () => ({}),
  'tools/list': () => ({ tools: Object.entries(tools).map(([name, { run, ...tool }]) => ({ name, ...tool })) }),
  'tools/call': ({ name, arguments: args = {} }) => {
    if (!Object.hasOwn(tools, name)) throw Object.assign(new Error(`Unknown tool: ${name}`), { code: -32602 });
    // What went wrong inside a tool is for the model to read.
    return tools[name].run(args).catch((error) => ({ ...text(error.message), isError: true }));
  },
  'resources/list': () => ({ resources: [{ uri: 'units://all', name: 'all', mimeType: 'application/json' }] }),
  'resources/templates/list': () => ({ resourceTemplates: [] }),
  'resources/read': ({ uri }) => {
    if (uri !== 'units://all') throw Object.assign(new Error('Resource not found'), { code: -32002, data: { uri } });
    return { contents: [{ uri, mimeType: 'application/json', text: JSON.stringify(units) }] };
  },
  'prompts/list': () => ({
    prompts: [{ name: 'metric_recipe', arguments: [{ name: 'recipe', required: true }] }],
  }),
  'prompts/get': ({ name, arguments: { recipe } = {} }) => {
    if (name !== 'metric_recipe' || recipe === undefined)
      throw Object.assign(new Error('Unknown prompt, or its argument recipe is missing'), { code: -32602 });
    const content = { type: 'text', text: `Rewrite in metric units, with convert:\n${recipe}` };
    return { messages: [{ role: 'user', content }] };
  },
};

let client = {};
let asked = 0;
const waiting = new Map();
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

function ask(method, params) {
  const id = `ask-${++asked}`;
  send({ id, method, params });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

for await (const line of createInterface({ input: process.stdin })) {
  let messages;
  try {
    messages = [JSON.parse(line)].flat();
  } catch {
    send({ id: null, error: { code: -32700, message: 'Not JSON' } });
    continue;
  }
  for (const message of messages) receive(message);
}

function receive({ id, method, params = {}, result, error }) {
  if (method === undefined) {
    if (error) waiting.get(id)?.reject(new Error(error.message));
    else waiting.get(id)?.resolve(result);
    waiting.delete(id);
  } else if (id !== undefined) {
    const run = methods[method] ?? (() => Promise.reject({ code: -32601, message: `Method not found: ${method}` }));
    // Not awaited: the answer to a question arrives while the call that asked is still running.
    Promise.resolve()
      .then(() => run(params))
      .then((value) => send({ id, result: value }))
      .catch(({ code = -32603, message, data }) => send({ id, error: { code, message, data } }));
  }
}
