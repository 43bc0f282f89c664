/**
 * Loaded into a gateway with `--import` before other modules. Replaces the interval between two pings (15 s) by
 * FAULT_PING_MS and the age limit of a stream (10 min) by FAULT_AGE_MS. Other timers are unchanged.
 */
const { setInterval, setTimeout } = globalThis;
const ping = Number(process.env.FAULT_PING_MS);
const age = Number(process.env.FAULT_AGE_MS);

globalThis.setInterval = (fn, ms, ...args) => setInterval(fn, ms === 15_000 ? ping : ms, ...args);
globalThis.setTimeout = Object.assign(
  (fn, ms, ...args) => setTimeout(fn, ms === 600_000 ? age : ms, ...args),
  setTimeout, // keeps the symbol that util.promisify needs
);
