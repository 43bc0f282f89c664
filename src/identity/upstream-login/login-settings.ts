/** Deviations of known authorization servers; `docs/upstream-login.md` describes each. */
export const QUIRKS = [
  'no-resource',
  'assume-pkce',
  'any-issuer',
  'any-resource',
  'secret-in-body',
  'secret-in-header',
  'no-offline-access',
] as const;
export type Quirk = (typeof QUIRKS)[number];

export const REGISTRATIONS = ['auto', 'metadata', 'dynamic', 'static'] as const;
export type Registration = (typeof REGISTRATIONS)[number];

/** The settings `servers.<name>.auth.oauth` and `agents.<name>.auth.oauth`. */
export interface LoginSettings {
  readonly scopes: readonly string[];
  readonly clientId?: string | undefined;
  readonly clientSecret?: string | undefined;
  readonly issuer?: string | undefined;
  readonly clientName?: string | undefined;
  readonly registration?: Registration | undefined;
  readonly quirks: readonly string[];
}

/** Whether the configuration asks for sign-ins of users, which is the case if any key of the section is written. */
export const asksForLogin = (settings: LoginSettings | undefined): settings is LoginSettings =>
  settings !== undefined &&
  (settings.registration !== undefined ||
    settings.clientId !== undefined ||
    settings.issuer !== undefined ||
    settings.clientName !== undefined ||
    settings.scopes.length > 0 ||
    settings.quirks.length > 0);

export const hasQuirk = ({ quirks }: LoginSettings, quirk: Quirk): boolean => quirks.includes(quirk);

/** An authorization server as the security scheme of an agent's card describes it. */
export interface LoginServer {
  /** The issuer, if the scheme names metadata. */
  readonly issuer?: string;
  /** The endpoints of an authorization code flow. */
  readonly authorizationUrl?: string;
  readonly tokenUrl?: string;
  readonly scopes: readonly string[];
  /** Whether the card requires PKCE. */
  readonly pkce: boolean;
}
