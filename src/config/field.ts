import type { RawValue } from './parsed-file.js';

/**
 * The building blocks of the schema. A field reads a written value, shows a value, and has a description. Validation,
 * defaults, environment names, types and the reference are all derived from the one table.
 */
export type Field = Scalar<unknown> | List<Field> | Dictionary<Field> | Group<Fields>;
export type Fields = { readonly [key: string]: Field };

/** The reason why a value was refused. `what` completes the sentence `"x" …`. */
export class Refusal {
  constructor(
    readonly what: string,
    readonly fix: string,
  ) {}
}

export interface ReadContext {
  /** The folder that relative paths start at. */
  readonly directory: string;
}

export interface Scalar<T> {
  readonly kind: 'scalar';
  /** The type as the reference names it. */
  readonly type: string;
  readonly description: string;
  /** The default, in the form that a user writes; it is read like any other value. */
  readonly default: RawValue | undefined;
  /** The default as text for the reference, if it depends on other keys. */
  readonly preset: string | undefined;
  readonly required: boolean;
  readonly secret: boolean;
  /** Environment variables of other programs that set this key. */
  readonly oldNames: readonly string[];
  /** The values that a file may have, as a JSON Schema; references such as `${NAME}` are added to it. */
  readonly schema: JsonSchema;
  read(value: string | number | boolean, context: ReadContext): T | Refusal;
  show(value: T): RawValue;
}

/** The keywords of JSON Schema that the configuration needs. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

export interface List<F extends Field> {
  readonly kind: 'list';
  readonly item: F;
  readonly description: string;
  readonly default: readonly RawValue[];
}

/** How the end of a variable's name becomes a key of the map. */
export type KeyStyle = 'server' | 'header' | 'variable' | 'tool';

export interface Dictionary<F extends Field> {
  readonly kind: 'map';
  readonly item: F;
  readonly description: string;
  readonly keys: KeyStyle;
  /** Entries with the value `null` are dropped instead of refused: editors unset variables this way. */
  readonly dropsNull: boolean;
}

export interface Group<S extends Fields> {
  readonly kind: 'group';
  readonly fields: S;
  readonly description: string;
}

/** The type of the value that a field reads. */
export type Infer<F> =
  F extends Scalar<infer T>
    ? T
    : F extends List<infer I>
      ? readonly Exclude<Infer<I>, undefined>[]
      : F extends Dictionary<infer I>
        ? Readonly<Record<string, Exclude<Infer<I>, undefined>>>
        : F extends Group<infer S>
          ? InferGroup<S>
          : never;

type Given<S> = { [K in keyof S]: undefined extends Infer<S[K]> ? never : K }[keyof S];
type InferGroup<S> = Flatten<
  { readonly [K in Given<S>]: Infer<S[K]> } & {
    readonly [K in Exclude<keyof S, Given<S>>]?: Exclude<Infer<S[K]>, undefined>;
  }
>;
type Flatten<T> = { [K in keyof T]: T[K] };

interface Options {
  readonly description: string;
  readonly default?: RawValue;
  readonly preset?: string;
  readonly required?: true;
  readonly secret?: true;
  readonly oldNames?: readonly string[];
}
/** `T`, or undefined if the key has no default and is not required. */
export type Present<T, O> = O extends { readonly default: RawValue } | { readonly required: true } ? T : T | undefined;

interface Kind<T> {
  readonly type: string;
  /** Default: any text. */
  readonly schema?: JsonSchema;
  readonly secret?: boolean;
  readonly read: Scalar<T>['read'];
  readonly show?: (value: T) => RawValue;
}

function scalarField<T, const O extends Options>(kind: Kind<T>, options: O): Scalar<Present<T, O>> {
  const show = kind.show ?? ((value: T) => value as RawValue);
  return {
    kind: 'scalar',
    type: kind.type,
    description: options.description,
    default: options.default,
    preset: options.preset,
    required: options.required ?? false,
    secret: options.secret ?? kind.secret ?? false,
    oldNames: options.oldNames ?? [],
    schema: kind.schema ?? { type: 'string' },
    read: (value, context) => kind.read(value, context) as Present<T, O> | Refusal,
    show: (value) => show(value as T),
  };
}

export function group<const S extends Fields>(description: string, fields: S): Group<S> {
  return { kind: 'group', description, fields };
}

export function list<F extends Field>(
  item: F,
  options: { description: string; default?: readonly RawValue[] },
): List<F> {
  return { kind: 'list', item, description: options.description, default: options.default ?? [] };
}

export function map<F extends Field>(
  item: F,
  options: { description: string; keys: KeyStyle; dropsNull?: true },
): Dictionary<F> {
  return {
    kind: 'map',
    item,
    description: options.description,
    keys: options.keys,
    dropsNull: options.dropsNull ?? false,
  };
}

export interface TextOptions extends Options {
  readonly pattern?: RegExp;
  /** Completes the sentence `"x" …` if the pattern does not match. */
  readonly what?: string;
  readonly fix?: string;
}

/** Accepts numbers and booleans as text, because people write `PORT: 8080` and `DEBUG: true`. */
export function text<const O extends TextOptions>(options: O): Scalar<Present<string, O>> {
  return scalarField<string, O>(
    {
      type: 'string',
      schema: { type: ['string', 'number', 'boolean'] },
      read(value) {
        const written = String(value);
        if (options.pattern !== undefined && !options.pattern.test(written)) {
          return new Refusal(options.what ?? 'is not allowed here', options.fix ?? `match ${options.pattern.source}`);
        }
        return written;
      },
    },
    options,
  );
}

export function secret<const O extends TextOptions>(options: O): Scalar<Present<string, O>> {
  return { ...text(options), type: 'secret', secret: true };
}

const TRUE = new Set(['true', 'yes', 'on', '1']);
const FALSE = new Set(['false', 'no', 'off', '0']);

export function flag<const O extends Options>(options: O): Scalar<Present<boolean, O>> {
  return scalarField<boolean, O>(
    {
      type: 'boolean',
      schema: { type: 'boolean' },
      read(value) {
        const written = String(value).toLowerCase();
        if (TRUE.has(written)) return true;
        if (FALSE.has(written)) return false;
        return new Refusal('is not true or false', 'write true or false');
      },
    },
    options,
  );
}

export function integer<const O extends Options & { min: number; max: number }>(
  options: O,
): Scalar<Present<number, O>> {
  const { min, max } = options;
  return scalarField<number, O>(
    {
      type: 'integer',
      schema: { type: 'integer', minimum: min, maximum: max },
      read(value) {
        const number = typeof value === 'number' ? value : /^-?\d+$/.test(String(value)) ? Number(value) : Number.NaN;
        if (!Number.isSafeInteger(number))
          return new Refusal('is not a whole number', `write a number from ${min} to ${max}`);
        if (number < min || number > max) return new Refusal('is out of range', `write a number from ${min} to ${max}`);
        return number;
      },
    },
    options,
  );
}

export function oneOf<const V extends string, const O extends Options>(
  values: readonly V[],
  options: O,
): Scalar<Present<V, O>> {
  return scalarField<V, O>(
    {
      type: values.map((value) => `\`${value}\``).join(' \\| '),
      schema: { enum: values },
      read(value) {
        const found = values.find((candidate) => candidate === value);
        return found ?? new Refusal('is not one of the choices', `write one of ${values.join(', ')}`);
      },
    },
    options,
  );
}

const UNIT_MS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
/** A timer longer than this overflows in Node and fires at once. */
const MAX_MS = 2 ** 31 - 1;
const DURATION_FIX = 'write a number with a unit, such as 500ms, 30s, 10m, 1h or 1m30s';

/** Read into milliseconds. A number without a unit is refused, because it could mean seconds or milliseconds. */
export function duration<const O extends Options>(options: O): Scalar<Present<number, O>> {
  return scalarField<number, O>(
    {
      type: 'duration',
      schema: { type: 'string', pattern: '^(\\d+(\\.\\d+)?(ms|s|m|h|d))+$' },
      read(value) {
        const written = String(value).trim();
        if (!/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(written)) return new Refusal('is not a duration', DURATION_FIX);
        let ms = 0;
        for (const [, amount, unit] of written.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)) {
          ms += Number(amount) * (UNIT_MS[unit ?? ''] ?? 0);
        }
        ms = Math.round(ms);
        if (ms < 1) return new Refusal('is too short', 'write at least 1ms');
        if (ms > MAX_MS) return new Refusal('is too long', 'write at most 24d');
        return ms;
      },
      show: formatDuration,
    },
    options,
  );
}

export function formatDuration(ms: number): string {
  for (const unit of ['d', 'h', 'm', 's']) {
    const size = UNIT_MS[unit] ?? 1;
    if (ms >= size && ms % size === 0) return `${ms / size}${unit}`;
  }
  return `${ms}ms`;
}

const UNIT_BYTES: Record<string, number> = {
  '': 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
};

/** Read into bytes. */
export function size<const O extends Options>(options: O): Scalar<Present<number, O>> {
  return scalarField<number, O>(
    {
      type: 'size',
      schema: {
        anyOf: [{ type: 'string', pattern: '^\\d+(\\.\\d+)?\\s*([kKmMgG][iI]?[bB]|[bB])?$' }, { type: 'integer' }],
      },
      read(value) {
        const match = /^(\d+(?:\.\d+)?)\s*([kmg]i?b|b|)$/i.exec(String(value).trim());
        if (match === null)
          return new Refusal('is not a size', 'write a number with a unit, such as 512KiB, 4MiB or 1GiB');
        const bytes = Math.round(Number(match[1]) * (UNIT_BYTES[(match[2] ?? '').toLowerCase()] ?? 1));
        if (bytes < 1024) return new Refusal('is too small', 'write at least 1KiB');
        if (bytes > 2 ** 30) return new Refusal('is too large', 'write at most 1GiB');
        return bytes;
      },
      show: formatSize,
    },
    options,
  );
}

export function formatSize(bytes: number): string {
  for (const [unit, size] of [
    ['GiB', 2 ** 30],
    ['MiB', 2 ** 20],
    ['KiB', 2 ** 10],
  ] as const) {
    if (bytes >= size && bytes % size === 0) return `${bytes / size}${unit}`;
  }
  return `${bytes}B`;
}

export type { Options as FieldOptions };
export { scalarField };
