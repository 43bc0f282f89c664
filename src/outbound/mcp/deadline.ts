/** The time limit of one call. Progress restarts it, but never beyond a fixed maximum (BASE-21). */
export class Deadline {
  private timer: NodeJS.Timeout;
  private readonly end: number;

  constructor(
    private readonly idle: number,
    max: number,
    private readonly expire: () => void,
  ) {
    this.end = performance.now() + Math.max(max, idle);
    this.timer = setTimeout(expire, idle);
  }

  extend(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(this.expire, Math.max(0, Math.min(this.idle, this.end - performance.now())));
  }

  clear(): void {
    clearTimeout(this.timer);
  }
}
