/** A browser without scripts: keeps cookies, follows redirects of its own, reads and sends forms. */
export interface Form {
  readonly action: string;
  readonly fields: Record<string, string>;
  readonly buttons: readonly { readonly name: string; readonly value: string; readonly text: string }[];
}

export interface Page {
  readonly status: number;
  readonly url: string;
  readonly headers: Headers;
  readonly text: string;
  readonly forms: readonly Form[];
}

export class PageReader {
  readonly cookies = new Map<string, string>();
  /** Every `Set-Cookie` so far. */
  readonly lines: string[] = [];

  constructor(
    /** Redirects to other origins are not followed. */
    readonly origin: string,
    /** The address behind a proxy: requests below the first URL go to the second one. */
    private readonly proxy: readonly [from: string, to: string] = ['', ''],
  ) {}

  async get(url: string): Promise<Page> {
    return this.follow(await this.request(url, {}), url);
  }

  async submit(form: Form, fields: Record<string, string> = {}): Promise<Page> {
    const url = new URL(form.action, this.origin).href;
    const body = new URLSearchParams({ ...form.fields, ...fields });
    return this.follow(await this.request(url, { method: 'POST', body, headers: { origin: this.origin } }), url);
  }

  async request(url: string, init: RequestInit): Promise<Response> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const [from, to] = this.proxy;
    const response = await fetch(from !== '' && url.startsWith(from) ? to + url.slice(from.length) : url, {
      ...init,
      redirect: 'manual',
      headers: { ...(init.headers as Record<string, string>), ...(cookie !== '' && { cookie }) },
    });
    for (const line of response.headers.getSetCookie()) {
      this.lines.push(line);
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (/max-age=0|expires=Thu, 01 Jan 1970/i.test(line)) this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    return response;
  }

  private async follow(response: Response, from: string): Promise<Page> {
    const location = response.headers.get('location');
    const next = location === null ? undefined : new URL(location, from);
    if (next && next.origin === this.origin) {
      await response.arrayBuffer();
      return this.get(next.href);
    }
    const text = await response.text();
    return { status: response.status, url: next?.href ?? from, headers: response.headers, text, forms: formsOf(text) };
  }
}

const unescaped = (text: string): string =>
  text
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');

const attribute = (tag: string, name: string): string | undefined => {
  const value = new RegExp(`\\s${name}="([^"]*)"`).exec(tag)?.[1];
  return value === undefined ? undefined : unescaped(value);
};

function formsOf(text: string): Form[] {
  return [...text.matchAll(/<form([^>]*)>(.*?)<\/form>/gs)].map(([, head = '', body = '']) => {
    const fields: Record<string, string> = {};
    for (const [tag] of body.matchAll(/<input[^>]*>/g))
      fields[attribute(tag, 'name') ?? ''] = attribute(tag, 'value') ?? '';
    const buttons = [...body.matchAll(/<button([^>]*)>(.*?)<\/button>/gs)].map(([, tag = '', label = '']) => ({
      name: attribute(tag, 'name') ?? '',
      value: attribute(tag, 'value') ?? '',
      text: unescaped(label).trim(),
    }));
    return { action: attribute(head, 'action') ?? '', fields, buttons };
  });
}

export interface SignIn {
  readonly name: string;
  readonly password: string;
}

/** Signs in and allows the client. Returns the URL to which the client's user returns. */
export async function allow(reader: PageReader, authorizationUrl: string, { name, password }: SignIn): Promise<URL> {
  let page = await reader.get(authorizationUrl);
  const login = page.forms.find(({ action }) => action.endsWith('/login'));
  if (login) page = await reader.submit(login, { name, password });
  const consent = page.forms.find(({ action }) => action.endsWith('/consent'));
  if (consent) page = await reader.submit(consent, { decision: 'allow' });
  const url = new URL(page.url);
  if (url.origin === reader.origin) throw new Error(`the sign-in did not end: HTTP ${page.status} ${page.text}`);
  return url;
}
