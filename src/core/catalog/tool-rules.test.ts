import { describe, expect, it } from 'vitest';
import { ALL_TOOLS, ToolRules, type ToolRulesOptions } from './tool-rules.js';

const rules = (options: Partial<ToolRulesOptions>): ToolRules =>
  new ToolRules({ allow: [], deny: [], rename: {}, ...options });

describe('ToolRules', () => {
  it.each<[string, Partial<ToolRulesOptions>, string, string | undefined]>([
    ['offer everything where they say nothing', {}, 'read', 'read'],
    ['offer what is allowed', { allow: ['read*'] }, 'read_file', 'read_file'],
    ['and nothing else', { allow: ['read*'] }, 'write_file', undefined],
    ['but not what is denied', { allow: ['*'], deny: ['*_secret'] }, 'read_secret', undefined],
    ['rename', { rename: { read: 'open' } }, 'read', 'open'],
    ['by the own name', { allow: ['read'], rename: { read: 'open' } }, 'read', 'open'],
    ['but not what is not offered', { deny: ['read'], rename: { read: 'open' } }, 'read', undefined],
  ])('%s', (_, options, own, name) => {
    expect(rules(options).nameOf(own)).toBe(name);
  });

  it('find the tool behind a name', () => {
    const renaming = rules({ deny: ['rm'], rename: { read: 'open', open: 'read', write: 'save', rm: 'delete' } });
    expect(['open', 'read', 'save', 'other'].map((name) => renaming.ownerOf(name))).toEqual([
      'read',
      'open',
      'write',
      'other',
    ]);
    // A tool has one name, and one that is denied has none.
    for (const name of ['write', 'rm', 'delete']) expect(renaming.ownerOf(name)).toBeUndefined();
    expect(ALL_TOOLS.ownerOf('constructor')).toBe('constructor');
  });

  it('tell what fits nothing, and what takes the name of another tool', () => {
    const all = rules({ allow: ['re*', 'gone'], deny: ['nothing*'], rename: { read: 'reset', lost: 'found' } });
    expect(all.problems(['read', 'reset', 'other'])).toEqual([
      'tools.allow: "gone" fits none of its tools (read, reset, other)',
      'tools.deny: "nothing*" fits none of its tools (read, reset, other)',
      'tools.rename: "read" takes the name of its tool "reset", which is not offered any more',
      'tools.rename: there is no tool "lost" (read, reset, other)',
    ]);
    expect(rules({ rename: { a: 'b', b: 'a' } }).problems(['a', 'b'])).toEqual([]);
    const many = Array.from({ length: 30 }, (_, i) => `t${i}`);
    expect(rules({ allow: ['x'] }).problems(many)[0]).toContain('t9, …');
    expect(rules({ allow: ['x'] }).problems([])).toEqual(['tools.allow: "x" fits none of its tools (none)']);
  });
});
