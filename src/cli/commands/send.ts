import type { Command, CommandLine } from '../command.js';
import { GatewayRefusal, gatewayAddress, requestJson } from '../gateway-api.js';
import { firstLine, GATEWAY_FLAGS, printJson, safeText } from '../gateway-output.js';
import { secondsOf } from './call.js';

const DEFAULT_SECONDS = 300;
const FAILED = new Set(['TASK_STATE_FAILED', 'TASK_STATE_REJECTED', 'TASK_STATE_CANCELED']);

export const SEND: Command = {
  name: 'send',
  operands: ['AGENT', 'TEXT'],
  summary: 'Send a text to an agent through the running gateway.',
  details:
    'Waits until the task of the agent ends or needs an answer, and prints its texts. An answer to a question is sent with\n' +
    '--task and the id of the task. The exit code is 1 if the task fails, and 3 if it needs an answer or still runs.',
  flags: [
    { name: 'task', value: 'ID', description: 'Continue this task.' },
    { name: 'context', value: 'ID', description: 'Continue this conversation.' },
    { name: 'timeout', value: 'SECONDS', description: `Time to wait for the agent. Default: ${DEFAULT_SECONDS}.` },
    ...GATEWAY_FLAGS,
  ],
  examples: ['parley send helper "What is the weather in Oslo?"', 'parley send helper "Tomorrow" --task 4f1c'],
  run: send,
};

async function send(line: CommandLine): Promise<number> {
  const { io, operands, text, given } = line;
  const [agent = '', message = ''] = operands;
  const address = gatewayAddress(line);
  const timeout = secondsOf(text('timeout'), SEND, DEFAULT_SECONDS);
  const { replyTexts, sendText } = await import('../../app/commands/agent-client.js');
  const path = `/a2a/${encodeURIComponent(agent.toLowerCase())}`;
  let state = '';
  const sent = sendText({
    post: (body, headers) => requestJson(address, path, { method: 'POST', body, headers, timeout }),
    text: message,
    taskId: text('task'),
    contextId: text('context'),
    timeout,
    changed: ({ status }) => {
      if (!io.terminal || given('json') || status.state === state) return;
      state = status.state;
      io.stderr(`${stateText(state)}\n`);
    },
  });
  const reply = await sent.catch((error: unknown) => {
    if (!(error instanceof GatewayRefusal) || error.status !== 404) throw error;
    throw new Error(`there is no agent ${JSON.stringify(firstLine(agent))}; parley agents lists them`);
  });
  if (given('json')) printJson(line, reply);
  else for (const each of replyTexts(reply)) io.stdout(`${safeText(each)}\n`);
  if (!('task' in reply)) return 0;
  const { id, status } = reply.task;
  if (status.state === 'TASK_STATE_COMPLETED') return 0;
  if (!given('json')) io.stderr(`Task ${firstLine(id)}: ${stateText(status.state)}\n`);
  return FAILED.has(status.state) ? 1 : 3;
}

/** The state for a person: `TASK_STATE_INPUT_REQUIRED` becomes `input required`. */
const stateText = (state: string): string =>
  firstLine(
    state
      .replace(/^TASK_STATE_/, '')
      .replaceAll('_', ' ')
      .toLowerCase(),
  );
