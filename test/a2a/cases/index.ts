import type { Case } from '../case.js';
import { ENDPOINTS } from './endpoints.js';
import { HEADERS } from './headers.js';
import { MESSAGES } from './messages.js';
import { PARTS_CASES } from './parts.js';
import { PUSH } from './push.js';
import { STREAMS } from './streams.js';
import { TASKS } from './tasks.js';

export const CASES: readonly Case[] = [
  ...MESSAGES,
  ...PARTS_CASES,
  ...STREAMS,
  ...TASKS,
  ...PUSH,
  ...HEADERS,
  ...ENDPOINTS,
];
