export interface Page {
  readonly status: number;
  readonly url: string;
  readonly text: string;
  readonly headers: Headers;
}

export interface SignInOptions {
  /** The code that the client shows. */
  readonly code?: string;
  /** What the user does at the authorization server. */
  readonly atIssuer?: (page: Page) => Promise<Page>;
}

export class LoginBrowser {
  open(url: string | URL, init?: RequestInit): Promise<Page>;
  submit(page: Page, typed?: Record<string, string>): Promise<Page>;
  signIn(link: string, options?: SignInOptions): Promise<Page>;
}
