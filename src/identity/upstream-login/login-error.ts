/** The step of a sign-in that failed. */
export type LoginStep =
  | 'challenge'
  | 'resource-metadata'
  | 'resource'
  | 'server-metadata'
  | 'pkce'
  | 'registration'
  | 'authorization'
  | 'token'
  | 'issuer';

/** A sign-in cannot go on. The message is for people. It contains no secret, and no text that another party wrote. */
export class LoginError extends Error {
  override readonly name = 'LoginError';

  constructor(
    readonly hop: LoginStep,
    message: string,
    /** The remedy for the operator or the user. */
    readonly advice: string,
  ) {
    super(message);
  }
}
