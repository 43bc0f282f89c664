/**
 * Loaded into a gateway with `--import`, before everything else: what it lets pass between two pings (15 s) and what a
 * stream may be old (10 min) take as long as FAULT_PING_MS and FAULT_AGE_MS say. Everything else keeps its time.
 */
const { setInterval, setTimeout } = globalThis;
const ping = Number(process.env.FAULT_PING_MS);
const age = Number(process.env.FAULT_AGE_MS);

globalThis.setInterval = (fn, ms, ...args) => setInterval(fn, ms === 15_000 ? ping : ms, ...args);
globalThis.setTimeout = Object.assign(
  (fn, ms, ...args) => setTimeout(fn, ms === 600_000 ? age : ms, ...args),
  setTimeout, // keeps what util.promisify looks for
);
