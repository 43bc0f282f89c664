/**
 * A user's browser on the pages of the gateway by which users sign in at servers: keeps cookies, sends the form that it
 * is shown, and follows redirects of the authorization server back to the gateway.
 */

/**
 * @typedef {object} Page
 * @property {number} status
 * @property {string} url
 * @property {string} text
 * @property {Headers} headers
 */

export class LoginBrowser {
  /** @type {Map<string, Map<string, string>>} the cookies of each origin */
  #cookies = new Map();

  /**
   * @param {string | URL} url
   * @param {RequestInit} [init]
   * @returns {Promise<Page>} the page after all redirects
   */
  async open(url, init = {}) {
    let at = new URL(url);
    let request = init;
    for (let hop = 0; hop < 20; hop++) {
      const jar = this.#cookies.get(at.origin) ?? new Map();
      const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
      const headers = { ...request.headers, ...(cookie !== '' && { cookie }) };
      const response = await fetch(at, { ...request, headers, redirect: 'manual' });
      for (const set of response.headers.getSetCookie()) {
        const [pair = ''] = set.split(';');
        const middle = pair.indexOf('=');
        if (/max-age=0|expires=thu, 01 jan 1970/i.test(set)) jar.delete(pair.slice(0, middle));
        else jar.set(pair.slice(0, middle), pair.slice(middle + 1));
      }
      this.#cookies.set(at.origin, jar);
      const location = response.headers.get('location');
      if (location === null || response.status < 300 || response.status > 399) {
        return { status: response.status, url: at.href, text: await response.text(), headers: response.headers };
      }
      await response.arrayBuffer();
      at = new URL(location, at);
      request = {};
    }
    throw new Error(`Too many redirects at ${at.origin}`);
  }

  /**
   * Fills in and sends the form of a page.
   * @param {Page} page
   * @param {Record<string, string>} [typed]
   */
  async submit(page, typed = {}) {
    const action = unescaped(/<form[^>]*action="([^"]*)"/.exec(page.text)?.[1] ?? page.url);
    const body = new URLSearchParams();
    for (const [input] of page.text.matchAll(/<input[^>]*>/g)) {
      const name = /name="([^"]*)"/.exec(input)?.[1];
      if (name !== undefined) body.set(unescaped(name), unescaped(/value="([^"]*)"/.exec(input)?.[1] ?? ''));
    }
    for (const [name, value] of Object.entries(typed)) body.set(name, value);
    const target = new URL(action, page.url);
    const headers = { 'content-type': 'application/x-www-form-urlencoded', origin: target.origin };
    return this.open(target, { method: 'POST', headers, body: body.toString() });
  }

  /**
   * Signs in by the link that a client shows.
   * @param {string} link
   * @param {{ code?: string, atIssuer?: (page: Page) => Promise<Page> }} [options]
   */
  async signIn(link, { code, atIssuer } = {}) {
    const consent = await this.open(link);
    if (consent.status !== 200) return consent;
    const leaving = await this.submit(consent, code === undefined ? {} : { code });
    const next = /http-equiv="refresh" content="0;url=([^"]*)"/.exec(leaving.text)?.[1];
    if (next === undefined) return leaving;
    const page = await this.open(unescaped(next));
    return atIssuer ? atIssuer(page) : page;
  }
}

/** @param {string} text */
const unescaped = (text) =>
  text
    .replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)))
    .replace(/&quot;/g, '"')
    .replace(/&lt;/g, '<')
    .replace(/&gt;/g, '>')
    .replace(/&amp;/g, '&');
