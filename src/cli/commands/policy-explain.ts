import type { Explanation } from '../../app/commands/policy-cases.js';
import { loadConfig } from '../../config/load.js';
import { CONFIG, type Command, type Flag, HELP, JSON_OUTPUT, UsageError } from '../command.js';

const ARGS: Flag = { name: 'args', value: 'JSON', description: 'The arguments of the call. Default: {}.' };
const ANNOTATIONS: Flag = { name: 'annotations', value: 'JSON', description: "The tool's annotations." };

export const POLICY_EXPLAIN: Command = {
  name: 'policy explain',
  operands: ['CALLER', 'TOOL'],
  summary: 'Say which rule of the policy decides about a call, and why.',
  details:
    'CALLER is the name of a caller, or JSON such as {"subject":"ada","groups":["staff"],"claims":{"email":"a@b.c"}}.\n' +
    'TOOL is a tool as the gateway lists it, such as weather__forecast. Prints every rule up to the deciding one, with\n' +
    'the value of each part of its condition. No server is contacted.',
  flags: [CONFIG, ARGS, ANNOTATIONS, JSON_OUTPUT, HELP],
  examples: [
    'parley policy explain ada weather__forecast',
    `parley policy explain ada files__write --args '{"path":"/etc/passwd"}' --json`,
  ],
  run: async ({ io, operands: [caller = '', tool = ''], text, given }) => {
    const { config } = loadConfig({ ...io, file: text('config') });
    const { PolicyCases, CaseError } = await import('../../app/commands/policy-cases.js');
    const object = (flag: Flag): object | undefined => {
      const written = text(flag.name);
      return written === undefined ? undefined : jsonObject(written, `--${flag.name}`);
    };
    const [args, annotations] = [object(ARGS), object(ANNOTATIONS)];
    const who = caller.startsWith('{') ? jsonObject(caller, 'CALLER') : caller;
    let explanation: Explanation;
    try {
      explanation = new PolicyCases(config).explain({
        ...{ caller: who as never, tool },
        ...(args && { arguments: args as never }),
        ...(annotations && { annotations: annotations as never }),
      });
    } catch (error) {
      if (error instanceof CaseError) throw new UsageError(error.message, POLICY_EXPLAIN);
      throw error;
    }
    io.stdout(given('json') ? `${JSON.stringify(explanation, null, 2)}\n` : explanationText(explanation));
    return 0;
  },
};

function jsonObject(written: string, what: string): object {
  try {
    const value: unknown = JSON.parse(written);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch {
    // Text that is not JSON gets the error below.
  }
  throw new UsageError(`${what} is not a JSON object`, POLICY_EXPLAIN);
}

function explanationText({ effect, rule, visible, enforced, rules }: Explanation): string {
  const by = rule === null ? (rules.length === 0 ? 'there are no rules' : 'no rule matches') : `rule "${rule}"`;
  const lines = [`${effect}: ${by}`];
  for (const { name, effect: its, matches, decides, parts } of rules) {
    lines.push(`  ${decides ? '→' : ' '} ${name} (${its}): ${matches}`);
    for (const { text, value } of parts as { text: string; value: string }[])
      lines.push(`        ${text}  =  ${value}`);
  }
  lines.push(visible ? 'The caller sees the tool in lists.' : 'The caller does not see the tool in lists.');
  if (!enforced) lines.push('The rules are not in effect: there are none, or policy.mode is dry-run.');
  return `${lines.join('\n')}\n`;
}
