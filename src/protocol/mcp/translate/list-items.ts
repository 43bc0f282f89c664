import type { JsonObject, JsonValue } from '../../jsonrpc/raw.js';
import { type Implementation, isObject, type ListMethod } from '../model.js';
import type { Expresses } from '../revisions/index.js';

/** Drops the members that the reader's revision lacks. Members that no revision defines pass (mcp.md 1.7). */
export function translateItem(method: ListMethod, item: JsonObject, to: Expresses): JsonObject {
  const out: JsonObject = { ...item };
  if (!to.titles) delete out['title'];
  if (!to.icons) delete out['icons'];
  if (!to.itemMeta) delete out['_meta'];
  if (method === 'tools/list') projectTool(out, to);
  else translateAnnotations(out, to);
  if (method === 'prompts/list' && !to.titles && Array.isArray(out['arguments'])) {
    out['arguments'] = out['arguments'].map(withoutTitle);
  }
  return out;
}

function projectTool(tool: JsonObject, to: Expresses): void {
  if (!to.toolAnnotations) delete tool['annotations'];
  if (!to.execution) delete tool['execution'];
  if (!expressesOutputSchema(tool['outputSchema'], to)) delete tool['outputSchema'];
}

function expressesOutputSchema(schema: JsonValue | undefined, to: Expresses): boolean {
  if (to.structuredOutput === 'any') return true;
  return to.structuredOutput === 'object' && isObject(schema) && schema['type'] === 'object';
}

function withoutTitle(value: JsonValue): JsonValue {
  if (!isObject(value)) return value;
  const { title: _, ...rest } = value;
  return rest;
}

export function translateAnnotations(holder: JsonObject, to: Expresses): void {
  const annotations = holder['annotations'];
  if (to.lastModified || !isObject(annotations) || !('lastModified' in annotations)) return;
  const { lastModified: _, ...rest } = annotations;
  holder['annotations'] = rest;
}

export function translateImplementation(info: Implementation, to: Expresses): Implementation {
  const out: Implementation = { ...info };
  if (!to.titles) delete out['title'];
  if (!to.icons) delete out['icons'];
  if (!to.implementationDetails) {
    delete out['description'];
    delete out['websiteUrl'];
  }
  return out;
}
