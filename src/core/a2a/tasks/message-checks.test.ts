import { describe, expect, test } from 'vitest';
import type { AgentCard, Part } from '../../../protocol/a2a/model.js';
import { checkMediaTypes } from './message-checks.js';

const card = (defaultInputModes: string[], inputModes?: string[]): AgentCard =>
  ({ defaultInputModes, skills: [{ id: 's', ...(inputModes && { inputModes }) }] }) as unknown as AgentCard;

const refusal = (part: Part, given: AgentCard): string | undefined => {
  try {
    checkMediaTypes([{ text: 'Hello' }, part], given);
    return undefined;
  } catch (error) {
    return (error as { reason?: string }).reason;
  }
};

describe('files (S-22)', () => {
  const image: Part = { raw: 'AA==', mediaType: 'image/png' };

  test('of a media type that neither the agent nor a skill declares are refused', () => {
    expect(refusal(image, card(['text/plain'], ['application/json']))).toBe('content_type_not_supported');
    expect(refusal({ url: 'https://a.example/x', mediaType: 'image/png' }, card(['text/plain']))).toBe(
      'content_type_not_supported',
    );
  });

  test('of a declared type pass, even if only a skill or an informal word declares the type', () => {
    expect(refusal(image, card(['text/plain', 'image/*']))).toBeUndefined();
    expect(refusal(image, card(['text'], ['image']))).toBeUndefined();
  });

  test('without a type pass; an agent without declared types gets all files; texts and data always pass', () => {
    expect(refusal({ raw: 'AA==' }, card(['text/plain']))).toBeUndefined();
    expect(refusal(image, card([]))).toBeUndefined();
    expect(refusal({ text: '# A', mediaType: 'text/markdown' }, card(['application/json']))).toBeUndefined();
    expect(refusal({ data: {}, mediaType: 'application/xml' }, card(['text/plain']))).toBeUndefined();
  });
});
