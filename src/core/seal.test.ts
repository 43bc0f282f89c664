import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Keyring, Seal, SealBroken } from './seal.js';

function ring(...ids: string[]): Keyring & { keys: Map<string, Buffer> } {
  const keys = new Map(ids.map((id) => [id, randomBytes(32)]));
  return {
    keys,
    get active() {
      const [id, key] = [...keys].at(-1)!;
      return { id, key };
    },
    find: (id) => keys.get(id),
  };
}

describe('Seal', () => {
  it('returns the sealed value to the same principal for the same purpose', () => {
    const seal = new Seal(ring('a'));
    fc.assert(
      fc.property(fc.jsonValue(), fc.string(), (value, principal) => {
        expect(seal.open('cursor', principal, seal.close('cursor', principal, value, 1_000))).toEqual(
          JSON.parse(JSON.stringify(value)),
        );
      }),
    );
  });

  it('S20: refuses another principal, another purpose and an expired value', () => {
    let now = 0;
    const seal = new Seal(ring('a'), () => now);
    const sealed = seal.close('session', 'ada', 'x', 1_000);
    expect(() => seal.open('session', 'bob', sealed)).toThrow(SealBroken);
    expect(() => seal.open('task', 'ada', sealed)).toThrow(SealBroken);
    now = 1_001;
    expect(() => seal.open('session', 'ada', sealed)).toThrow('expired');
  });

  it('S20: refuses every value that differs in a single bit', () => {
    const seal = new Seal(ring('a'));
    const bytes = Buffer.from(seal.close('state', 'ada', { n: 1 }, 10_000), 'base64url');
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const forged = Buffer.from(bytes);
      forged[bit >> 3]! ^= 1 << (bit & 7);
      expect(() => seal.open('state', 'ada', forged.toString('base64url'))).toThrow(SealBroken);
    }
  });

  it('throws only SealBroken for any input', () => {
    const seal = new Seal(ring('a'));
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.base64String()), (text) => {
        expect(() => seal.open('state', 'ada', text)).toThrow(SealBroken);
      }),
    );
  });

  it('opens with an older key after rotation, until that key is removed', () => {
    const keyring = ring('a');
    const seal = new Seal(keyring);
    const sealed = seal.close('cursor', 'ada', 1, 10_000);
    keyring.keys.set('b', randomBytes(32));
    expect(seal.open('cursor', 'ada', sealed)).toBe(1);
    keyring.keys.delete('a');
    expect(() => seal.open('cursor', 'ada', sealed)).toThrow(SealBroken);
  });
});
