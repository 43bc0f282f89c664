import { createHash } from 'node:crypto';

/** The id of a record: a digest, so that the database contains no usable code, token or session. */
export const recordId = (value: string): string => createHash('sha256').update(value).digest('base64url');
