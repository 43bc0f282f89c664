import { isObject, type JsonObject } from '../jsonrpc/raw.js';

/** The ways in which a result of a server can break the protocol, as far as sampling checks them. */
export const RESULT_VIOLATIONS = [
  'content_missing',
  'content_block_invalid',
  'structured_content_missing',
  'resource_contents_invalid',
  'prompt_messages_invalid',
  'completion_invalid',
] as const;
export type ResultViolation = (typeof RESULT_VIOLATIONS)[number];

/** The violations in the result of a method. `definition` is the tool as its server defines it. */
export function resultViolations(
  method: string,
  result: JsonObject,
  definition: JsonObject | undefined,
): ResultViolation[] {
  switch (method) {
    case 'tools/call': {
      const { content, structuredContent, isError } = result;
      const found: ResultViolation[] = [];
      if (!Array.isArray(content)) found.push('content_missing');
      else if (!content.every(isBlock)) found.push('content_block_invalid');
      if (definition?.['outputSchema'] !== undefined && structuredContent === undefined && isError !== true)
        found.push('structured_content_missing');
      return found;
    }
    case 'resources/read': {
      const { contents } = result;
      return Array.isArray(contents) && contents.every(isContents) ? [] : ['resource_contents_invalid'];
    }
    case 'prompts/get': {
      const { messages } = result;
      return Array.isArray(messages) && messages.every(isMessage) ? [] : ['prompt_messages_invalid'];
    }
    case 'completion/complete': {
      const values = isObject(result['completion']) ? result['completion']['values'] : undefined;
      const right = Array.isArray(values) && values.length <= 100 && values.every(isString);
      return right ? [] : ['completion_invalid'];
    }
    default:
      return [];
  }
}

const isString = (value: unknown): value is string => typeof value === 'string';

function isBlock(block: unknown): boolean {
  if (!isObject(block)) return false;
  switch (block['type']) {
    case 'text':
      return isString(block['text']);
    case 'image':
    case 'audio':
      return isString(block['data']) && isString(block['mimeType']);
    case 'resource_link':
      return isString(block['uri']) && isString(block['name']);
    case 'resource':
      return isContents(block['resource']);
    default:
      // Later revisions may have other types.
      return isString(block['type']);
  }
}

const isContents = (contents: unknown): boolean =>
  isObject(contents) && isString(contents['uri']) && (isString(contents['text']) || isString(contents['blob']));

const isMessage = (message: unknown): boolean =>
  isObject(message) && (message['role'] === 'user' || message['role'] === 'assistant') && isBlock(message['content']);
