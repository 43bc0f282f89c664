import { EFFECTS } from '../identity/policy/policy.js';
import { group, list, oneOf, text } from './field.js';

const rule = group('One rule of a policy.', {
  name: text({
    required: true,
    description: 'The name of the rule in the log and in explanations.',
    pattern: /^[A-Za-z0-9][A-Za-z0-9 ._-]{0,79}$/,
    what: 'is not a name for a rule',
    fix: 'write up to 80 letters, digits, blanks, dots, dashes and underscores, starting with a letter or digit',
  }),
  when: text({
    required: true,
    description:
      'The condition in CEL, such as `tool == "forecast" && "staff" in caller.groups`; see `docs/policy.md`.',
    pattern: /\S/,
    what: 'is empty',
    fix: 'write a condition, or true',
  }),
  effect: oneOf(EFFECTS, {
    required: true,
    description: 'Whether a matching call is allowed, denied, or needs the approval of a person.',
  }),
});

/** The keys of `policy` about rules. */
export const policyRules = {
  rules: list(rule, {
    description:
      'Rules for every call, in order: the first that matches decides. If there is a rule, calls that no rule matches are denied.',
  }),
  mode: oneOf(['enforce', 'dry-run'], {
    default: 'enforce',
    description: '`dry-run` allows every call and logs the calls that `rules` would deny or let a person approve.',
  }),
  proposed: list(rule, {
    description:
      'Proposed rules that are not in effect: the log names the calls that they would decide differently than `rules`.',
  }),
};
