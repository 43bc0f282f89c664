import type { AuditActor, AuditTrail } from '../../core/audit-trail.js';
import type { OAuthRecords, OAuthRevocations, OAuthUser, OAuthUsers } from '../../state/index.js';
import { hashPassword, LONGEST_PASSWORD, SHORTEST_PASSWORD, verifyPassword } from './password.js';
import { REVOCATION_LIFE, userRevocation } from './revocation-list.js';

/** The name of a local user is the subject of its tokens. `#` separates issuer and subject of other users. */
const NAME = /^[a-z0-9][a-z0-9._@+-]{0,63}$/;
const ROLE = /^[A-Za-z0-9][\w.:/-]{0,63}$/;
const MAX_ROLES = 32;
const PAGE = 500;

/** The request cannot be carried out; the message says what to change. */
export class UserError extends Error {
  override readonly name = 'UserError';
}

export interface UsersOptions {
  readonly users: OAuthUsers;
  readonly records: Pick<OAuthRecords, 'removeAccount'>;
  readonly revocations: Pick<OAuthRevocations, 'add'>;
  /** Removes everything else that is kept for a user. */
  forget(user: OAuthUser): Promise<void>;
  /** Receives a record of every change. */
  readonly audit: AuditTrail;
  /** The person who changes users. */
  readonly by: AuditActor;
}

export interface NewUser {
  readonly name: string;
  readonly password: string;
  readonly roles: readonly string[];
  readonly tenant: string | undefined;
}

/** People compare user names without case. */
export const userName = (given: string): string => given.trim().toLowerCase();

/** The local users, for the command line and the login page. */
export class Users {
  constructor(private readonly options: UsersOptions) {}

  async add({ name, password, roles, tenant }: NewUser): Promise<void> {
    const id = userName(name);
    if (!NAME.test(id))
      throw new UserError(
        `"${name}" is not a user name: use up to 64 letters, digits, and . _ @ + -, beginning with a letter or a digit`,
      );
    for (const role of [...roles, ...(tenant === undefined ? [] : [tenant])])
      if (!ROLE.test(role))
        throw new UserError(`"${role}" is not a name for a role or a tenant: use letters and digits`);
    if (roles.length > MAX_ROLES) throw new UserError(`a user can have ${MAX_ROLES} roles`);
    checkPassword(password);
    const user = { id, issuer: undefined, name: id, password: await hashPassword(password), roles, tenant };
    const { users, audit, by } = this.options;
    await audit.change({ ...by, action: 'user.add', subject: id, details: { roles, tenant } }, async () => {
      if (await users.add(user)) return;
      throw new UserError(`the user ${id} exists already; "parley users password ${id}" changes the password`);
    });
  }

  async list(): Promise<OAuthUser[]> {
    const all: OAuthUser[] = [];
    for (let after = ''; ; ) {
      const page = await this.options.users.list(after, PAGE);
      all.push(...page);
      if (page.length < PAGE) return all;
      after = page.at(-1)!.id;
    }
  }

  /**
   * Ends all sessions and tokens of the user too: access tokens are refused within a second on every replica. Nothing
   * of the user is left for a later user of the same name.
   */
  async remove(name: string): Promise<void> {
    const id = await this.known(name);
    const { users, audit, by, forget } = this.options;
    const user = await users.get(id);
    await audit.change({ ...by, action: 'user.remove', subject: id }, async () => {
      await users.remove(id);
      await this.signOut(id);
    });
    if (user) await forget(user);
  }

  /** Changes the password and ends all sessions and tokens, which somebody else may hold. */
  async setPassword(name: string, password: string): Promise<void> {
    const id = await this.known(name);
    checkPassword(password);
    if ((await this.options.users.get(id))?.issuer !== undefined)
      throw new UserError(`${id} signs in at another provider, which has the password`);
    const { users, audit, by } = this.options;
    const hashed = await hashPassword(password);
    await audit.change({ ...by, action: 'user.password', subject: id }, async () => {
      await users.setPassword(id, hashed);
      await this.signOut(id);
    });
  }

  /** The user with this name and password; undefined if there is none. */
  async authenticate(name: string, password: string): Promise<OAuthUser | undefined> {
    const id = userName(name);
    const user = NAME.test(id) ? await this.options.users.get(id) : undefined;
    const right = await verifyPassword(password.slice(0, LONGEST_PASSWORD), user?.password);
    if (!user || !right) return undefined;
    await this.options.users.signedIn(id);
    return user;
  }

  private async known(name: string): Promise<string> {
    // The id of a user of another provider is case-sensitive.
    for (const id of [name, userName(name)]) if (await this.options.users.get(id)) return id;
    throw new UserError(`there is no user ${name}; "parley users list" shows all users`);
  }

  private async signOut(id: string): Promise<void> {
    await this.options.records.removeAccount(id);
    await this.options.revocations.add(userRevocation(id), REVOCATION_LIFE);
  }
}

function checkPassword(password: string): void {
  if (password.length < SHORTEST_PASSWORD)
    throw new UserError(`a password needs at least ${SHORTEST_PASSWORD} characters`);
  if (password.length > LONGEST_PASSWORD)
    throw new UserError(`a password may have at most ${LONGEST_PASSWORD} characters`);
}
