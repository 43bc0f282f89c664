/** Decides which traces are exported, from the variables of OpenTelemetry or a rate in percent. */
export interface Sampling {
  /** Whether the decision of a client's trace counts. */
  readonly parentBased: boolean;
  /** The exported part of the traces, from 0 to 1. */
  readonly ratio: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Throws for a value that OpenTelemetry does not define. */
export function samplingOf(env: Environment, percent: number): Sampling {
  const name = env['OTEL_TRACES_SAMPLER']?.trim();
  if (name === undefined || name === '') return { parentBased: true, ratio: percent / 100 };
  const parentBased = name.startsWith('parentbased_');
  switch (parentBased ? name.slice('parentbased_'.length) : name) {
    case 'always_on':
      return { parentBased, ratio: 1 };
    case 'always_off':
      return { parentBased, ratio: 0 };
    case 'traceidratio':
      return { parentBased, ratio: ratioOf(env['OTEL_TRACES_SAMPLER_ARG']) };
    default:
      throw new Error(
        `OTEL_TRACES_SAMPLER: "${name.slice(0, 50)}" is unknown; use always_on, always_off or traceidratio, or one of them after parentbased_`,
      );
  }
}

function ratioOf(text: string | undefined): number {
  if (text === undefined || text.trim() === '') return 1;
  const ratio = Number(text);
  if (!(ratio >= 0 && ratio <= 1))
    throw new Error(`OTEL_TRACES_SAMPLER_ARG: "${text.slice(0, 50)}" is not a number from 0 to 1`);
  return ratio;
}

/**
 * Every replica decides the same for a trace, because only the id of the trace decides. The last 56 bits of the id are
 * random.
 */
export function isSampled(
  { parentBased, ratio }: Sampling,
  traceId: string,
  parentSampled: boolean | undefined,
): boolean {
  if (parentBased && parentSampled !== undefined) return parentSampled;
  if (ratio >= 1) return true;
  return lastBits(traceId) / 0x1_0000_0000 < ratio;
}

/**
 * The last 32 bits of an id of lower-case hexadecimal digits. Runs for every call, so no text is cut out and parsed.
 */
function lastBits(traceId: string): number {
  let bits = 0;
  for (let at = traceId.length - 8; at < traceId.length; at++) {
    const code = traceId.charCodeAt(at);
    bits = bits * 16 + (code <= NINE ? code - ZERO : code - BEFORE_A);
  }
  return bits;
}

const ZERO = 48;
const NINE = 57;
/** The code of the letter `a` minus 10, the value of this digit. */
const BEFORE_A = 87;
