/** Where an OpenAPI document comes from: a file of the operator, or a URL. */
import { open, stat } from 'node:fs/promises';
import { bufferedRequest } from '../http/buffered-request.js';
import { connectionProblem } from '../http/connection-problem.js';
import { type HttpClient, headerOf } from '../http/index.js';
import { DocumentProblem, MOST_DOCUMENT } from './document.js';

export interface DocumentSource {
  /** Milliseconds between two checks for a change. */
  readonly interval: number;
  /** The URL of the document, against which its relative URLs are resolved. */
  readonly url: string | undefined;
  /**
   * Resolves with the text, or with undefined if the text has not changed since the last call. Throws a
   * `DocumentProblem`.
   */
  read(): Promise<string | undefined>;
}

const FILE_INTERVAL = 2_000;
const URL_INTERVAL = 60_000;

export const isUrl = (source: string): boolean => /^https?:\/\//i.test(source);

export const documentSource = (place: string, http: HttpClient, time: number): DocumentSource =>
  isUrl(place) ? new UrlSource(place, http, time) : new FileSource(place);

class FileSource implements DocumentSource {
  readonly interval = FILE_INTERVAL;
  readonly url = undefined;
  private seen: string | undefined;

  constructor(private readonly path: string) {}

  async read(): Promise<string | undefined> {
    try {
      const { mtimeMs, size, ino } = await stat(this.path);
      const state = `${mtimeMs} ${size} ${ino}`;
      if (state === this.seen) return undefined;
      if (size > MOST_DOCUMENT) throw new DocumentProblem(`has more than ${MOST_DOCUMENT} bytes`);
      const file = await open(this.path);
      try {
        const text = await file.readFile('utf8');
        this.seen = state;
        return text;
      } finally {
        await file.close();
      }
    } catch (error) {
      if (error instanceof DocumentProblem) throw error;
      throw new DocumentProblem(`cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown reason'})`);
    }
  }
}

/** Fetched without a credential: the credential of the server belongs to the API, which may be elsewhere. */
class UrlSource implements DocumentSource {
  readonly interval = URL_INTERVAL;
  private tag: string | undefined;

  constructor(
    readonly url: string,
    private readonly http: HttpClient,
    private readonly time: number,
  ) {}

  async read(): Promise<string | undefined> {
    const headers = ['Accept', 'application/json, application/yaml;q=0.9, */*;q=0.5'];
    if (this.tag !== undefined) headers.push('If-None-Match', this.tag);
    const limits = { time: this.time, size: MOST_DOCUMENT };
    const reply = await bufferedRequest(this.http, this.url, { method: 'GET', headers }, limits).catch(
      (error: Error) => {
        // The message contains no addresses, because callers must not read them (S25).
        throw new DocumentProblem(`cannot be fetched: ${connectionProblem(error)}`);
      },
    );
    if (reply.status === 304 && this.tag !== undefined) return undefined;
    if (reply.status !== 200) throw new DocumentProblem(`cannot be fetched: HTTP ${reply.status}`);
    this.tag = headerOf(reply.headers, 'etag');
    return reply.body.toString('utf8');
  }
}
