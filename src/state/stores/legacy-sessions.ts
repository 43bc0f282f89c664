import type { Db } from '../db.js';
import { Documents } from './documents.js';

/** Sessions of legacy clients: started at one replica, continued at any. */
export class Sessions<T = unknown> extends Documents<T> {
  constructor(db: Db) {
    super(db, 'sessions');
  }
}
