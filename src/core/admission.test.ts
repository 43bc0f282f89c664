import { describe, expect, test } from 'vitest';
import { type Admission, type AdmissionRequest, allAdmissions, type ItemTarget, sees, seesAll } from './admission.js';
import { callerOf, GATEWAY, principalOf } from './caller.js';

const ada = callerOf(principalOf({ subject: 'ada' }));
const tool = (server: string): ItemTarget => ({ server, kind: 'tool', name: 'x' });
const request = (server: string): AdmissionRequest => ({
  caller: ada,
  protocol: 'mcp',
  method: 'tools/call',
  target: tool(server),
  arguments: undefined,
});

const open: Admission = { admit: () => {} };
const hiding = (hidden: string, later = false): Admission => ({
  sees: (_, { server }) => (later ? Promise.resolve(server !== hidden) : server !== hidden),
  admit: ({ target }) => {
    const refuse = (): void => {
      if (target.server === hidden) throw new Error(`refused by ${hidden}`);
    };
    return later ? Promise.resolve().then(refuse) : refuse();
  },
});

describe('combined admissions', () => {
  test('a single admission is returned unchanged; admissions that hide nothing have no `sees`', () => {
    expect(allAdmissions([open])).toBe(open);
    const both = allAdmissions([open, open]);
    expect(both.sees).toBeUndefined();
    expect(seesAll(both, ada)).toBe(true);
  });

  test('show a target only if all of them show it, and return a promise only for an asynchronous decision', async () => {
    const sync = allAdmissions([hiding('a'), open, hiding('b')]);
    expect(['a', 'b', 'c'].map((server) => sees(sync, ada, tool(server)))).toEqual([false, false, true]);
    const later = allAdmissions([hiding('a', true), hiding('b')]);
    expect(await Promise.all(['a', 'b', 'c'].map((server) => sees(later, ada, tool(server))))).toEqual([
      false,
      false,
      true,
    ]);
    expect(sees(later, GATEWAY, tool('a'))).toBe(true);
  });

  test('admit a request only if no admission refuses it', async () => {
    const sync = allAdmissions([hiding('a'), open, hiding('b')]);
    expect(sync.admit(request('c'))).toBeUndefined();
    expect(() => sync.admit(request('b'))).toThrow('refused by b');
    const later = allAdmissions([hiding('a', true), hiding('b')]);
    await expect(later.admit(request('a'))).rejects.toThrow('refused by a');
    await expect(later.admit(request('b'))).rejects.toThrow('refused by b');
    await expect(later.admit(request('c'))).resolves.toBeUndefined();
  });

  test('a caller sees everything only if every admission says so', () => {
    const knows = (everything: boolean): Admission => ({ ...hiding('a'), seesEverything: () => everything });
    expect(seesAll(allAdmissions([knows(true), knows(true)]), ada)).toBe(true);
    expect(seesAll(allAdmissions([knows(true), knows(false)]), ada)).toBe(false);
    expect(seesAll(allAdmissions([knows(true), hiding('b')]), ada)).toBe(false);
  });
});
