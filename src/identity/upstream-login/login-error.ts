/** The part of a sign-in that failed. The texts of the doctor are by hop. */
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

/** A sign-in cannot go on. The message is for people and contains no secret and no text of the other side. */
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
