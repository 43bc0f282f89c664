import { isObject, type JsonObject } from '../jsonrpc/raw.js';
import { TASK_STATES } from './model.js';

/** The ways in which an answer of an agent can break the protocol, as far as sampling checks them. */
export const ANSWER_VIOLATIONS = ['task_invalid', 'artifact_invalid', 'message_invalid'] as const;
export type AnswerViolation = (typeof ANSWER_VIOLATIONS)[number];

const STATES: ReadonlySet<unknown> = new Set(TASK_STATES);

/** The violations in the answer to a message, or in a task. */
export function answerViolations(answer: JsonObject): AnswerViolation[] {
  const { task, message } = answer;
  if (isObject(message) && task === undefined) return isMessage(message) ? [] : ['message_invalid'];
  const given = isObject(task) ? task : 'status' in answer ? answer : undefined;
  if (given === undefined) return [];
  const { id, status, artifacts } = given;
  const found: AnswerViolation[] = [];
  if (typeof id !== 'string' || !isObject(status) || !STATES.has(status['state'])) found.push('task_invalid');
  if (artifacts !== undefined && !(Array.isArray(artifacts) && artifacts.every(isArtifact)))
    found.push('artifact_invalid');
  return found;
}

const hasParts = ({ parts }: JsonObject): boolean => Array.isArray(parts) && parts.length > 0 && parts.every(isObject);

const isArtifact = (artifact: unknown): boolean =>
  isObject(artifact) && typeof artifact['artifactId'] === 'string' && hasParts(artifact);

const isMessage = (message: JsonObject): boolean => typeof message['messageId'] === 'string' && hasParts(message);
