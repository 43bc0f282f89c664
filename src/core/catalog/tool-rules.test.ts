import { describe, expect, it } from 'vitest';
import { ALL_TOOLS, ToolRules, type ToolRulesOptions } from './tool-rules.js';

const rules = (options: Partial<ToolRulesOptions>): ToolRules =>
  new ToolRules({ allow: [], deny: [], rename: {}, ...options });

describe('ToolRules', () => {
  it.each<[string, Partial<ToolRulesOptions>, string, string | undefined]>([
    ['offer every tool by default', {}, 'read', 'read'],
    ['offer allowed tools', { allow: ['read*'] }, 'read_file', 'read_file'],
    ['do not offer other tools', { allow: ['read*'] }, 'write_file', undefined],
    ['do not offer denied tools', { allow: ['*'], deny: ['*_secret'] }, 'read_secret', undefined],
    ['rename', { rename: { read: 'open' } }, 'read', 'open'],
    ['allow by own name and rename', { allow: ['read'], rename: { read: 'open' } }, 'read', 'open'],
    ['do not offer a renamed tool that is denied', { deny: ['read'], rename: { read: 'open' } }, 'read', undefined],
  ])('%s', (_, options, own, name) => {
    expect(rules(options).nameOf(own)).toBe(name);
  });

  it('find the tool of an offered name', () => {
    const renaming = rules({ deny: ['rm'], rename: { read: 'open', open: 'read', write: 'save', rm: 'delete' } });
    expect(['open', 'read', 'save', 'other'].map((name) => renaming.ownerOf(name))).toEqual([
      'read',
      'open',
      'write',
      'other',
    ]);
    // A renamed tool has only its new name, and a denied tool has none.
    for (const name of ['write', 'rm', 'delete']) expect(renaming.ownerOf(name)).toBeUndefined();
    expect(ALL_TOOLS.ownerOf('constructor')).toBe('constructor');
  });

  it('report patterns without a match and renames that hide another tool', () => {
    const all = rules({ allow: ['re*', 'gone'], deny: ['nothing*'], rename: { read: 'reset', lost: 'found' } });
    expect(all.problems(['read', 'reset', 'other'])).toEqual([
      'tools.allow: "gone" matches no tool of the server (read, reset, other)',
      'tools.deny: "nothing*" matches no tool of the server (read, reset, other)',
      'tools.rename: "read" takes the name of tool "reset", which is therefore not offered',
      'tools.rename: there is no tool "lost" (read, reset, other)',
    ]);
    expect(rules({ rename: { a: 'b', b: 'a' } }).problems(['a', 'b'])).toEqual([]);
    const many = Array.from({ length: 30 }, (_, i) => `t${i}`);
    expect(rules({ allow: ['x'] }).problems(many)[0]).toContain('t9, …');
    expect(rules({ allow: ['x'] }).problems([])).toEqual(['tools.allow: "x" matches no tool of the server (none)']);
  });
});
