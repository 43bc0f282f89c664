import { describe, expect, it } from 'vitest';
import type { ClientCapabilities } from '../../protocol/mcp/model.js';
import { capabilitySet, declarationOf, lacking, NO_CAPABILITIES, namesOf } from './capability-set.js';

const UI = 'io.modelcontextprotocol/ui';
const APP = 'text/html;profile=mcp-app';

describe('capabilitySet', () => {
  it.each<[ClientCapabilities, string[]]>([
    [{}, []],
    [{ experimental: { x: {} } }, []],
    [{ elicitation: {} }, ['elicitation.form']],
    [{ elicitation: { form: { applyDefaults: true } } }, ['elicitation.form']],
    [{ elicitation: { url: {} } }, ['elicitation.url']],
    [
      { elicitation: { form: {}, url: {} }, roots: { listChanged: true } },
      ['elicitation.form', 'elicitation.url', 'roots'],
    ],
    [{ sampling: {} }, ['sampling']],
    [{ sampling: { tools: {}, context: {} } }, ['sampling', 'sampling.tools']],
    [{ extensions: { [UI]: { mimeTypes: [APP, 'text/plain'] } } }, [UI]],
    [{ extensions: { [UI]: {} } }, []],
    [{ extensions: { 'example.test/any': { a: 1 } } }, []],
    [{ roots: 'yes' } as unknown as ClientCapabilities, []],
  ])('of %j is %j', (declared, names) => {
    expect(namesOf(capabilitySet(declared))).toEqual(names);
  });

  it('equals the set of its own declaration', () => {
    const every = capabilitySet({
      elicitation: { form: {}, url: {} },
      sampling: { tools: {} },
      roots: {},
      extensions: { [UI]: { mimeTypes: [APP] } },
    });
    for (let set = NO_CAPABILITIES; set <= every; set++) {
      // `sampling.tools` has no meaning without `sampling`.
      const named = namesOf(set);
      if (named.includes('sampling.tools') && !named.includes('sampling')) continue;
      expect(capabilitySet(declarationOf(set))).toBe(set);
    }
  });

  it('lists the lacking capabilities', () => {
    const [some, more] = [{ roots: {} }, { roots: {}, sampling: {} }].map(capabilitySet) as [number, number];
    expect(namesOf(lacking(some, more))).toEqual(['sampling']);
    expect(lacking(more, some)).toBe(NO_CAPABILITIES);
  });
});
