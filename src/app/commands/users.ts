/** The users and keys of the built-in authorization server, for commands that work beside a running gateway. */
import type { Config } from '../../config/schema.js';
import { Seal } from '../../core/seal.js';
import { Users } from '../../identity/oauth-server/users.js';
import { type OAuthUser, wallMs } from '../../state/index.js';
import type { Log } from '../../telemetry/log.js';
import { forgetCaller } from '../forget-caller.js';
import { callerKey, signingKeys } from '../oauth-server.js';
import { withCommandStorage } from './command-storage.js';

/** Runs `work` on the database of the configuration. A running gateway sees the change within a second. */
export const withUsers = <T>(config: Config, log: Log, work: (users: Users) => Promise<T>): Promise<T> =>
  withCommandStorage(
    config,
    (storage) => {
      const { state, audit, by } = storage;
      const { oauthUsers: users, oauthRecords: records, oauthRevocations: revocations } = state;
      const forget = (user: OAuthUser): Promise<void> => forgetCaller(storage, callerKey(user));
      return work(new Users({ users, records, revocations, forget, audit, by }));
    },
    log,
  );

/** Makes a new signing key for tokens. Returns its id. */
export const rotateSigningKey = (config: Config, log: Log): Promise<string> =>
  withCommandStorage(
    config,
    ({ state, audit, by }) =>
      audit.change(
        { ...by, action: 'signing-key.rotate' },
        () => signingKeys(state, new Seal(state.keyring, wallMs)).rotate(),
        (subject) => ({ subject }),
      ),
    log,
  );
