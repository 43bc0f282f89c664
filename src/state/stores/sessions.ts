import type { Db } from '../db.js';
import { Documents } from './documents.js';

/** Legacy clients' sessions: begun on one replica, continued on any. */
export class Sessions<T = unknown> extends Documents<T> {
  constructor(db: Db) {
    super(db, 'sessions');
  }
}
