import { type Abortable, type HttpHeaders, headerOf } from '../http/index.js';

const GRACE = 1_000;

/** Whether the reply is one JSON text, which is heard when the reply has ended. Any other may go on after its answer. */
export const endsWithAnswer = (headers: HttpHeaders): boolean =>
  headerOf(headers, 'content-type')?.startsWith('application/json') ?? false;

/**
 * The moment a reply has to end once its answer has come. One that ends leaves its connection to the next request; one
 * that does not would keep it forever.
 */
export class Grace {
  private timer: NodeJS.Timeout | undefined;
  private over = false;

  constructor(private readonly reply: Abortable) {
    // Mostly the end comes with the same read.
    process.nextTick(() => this.begin());
  }

  private begin(): void {
    if (!this.over) this.timer = setTimeout(() => this.reply.abort(), GRACE).unref();
  }

  end(): void {
    this.over = true;
    clearTimeout(this.timer);
  }
}
