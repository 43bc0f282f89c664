import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';

/** Of both halves together. */
const ENOUGH = 16 * 1024 * 1024;
const LOOKS = 1_000;

/**
 * V8 lets the young generation grow to twice as much. Calls leave next to nothing behind: in half of it they take about
 * a twentieth longer under load, and the process has 17 MB less. So it is told to stop there. Where there is little to do
 * V8 takes some of it back by itself, and may then give it again.
 */
export function boundYoungGeneration(): void {
  let bounded = false;
  const look = (): void => {
    const young = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
    const enough = young !== undefined && young.space_size >= ENOUGH;
    if (enough === bounded) return;
    bounded = enough;
    setFlagsFromString(`--semi-space-growth-factor=${bounded ? 1 : 2}`);
  };
  look();
  setInterval(look, LOOKS).unref();
}
