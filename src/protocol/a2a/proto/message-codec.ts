/**
 * Translates messages between the binary form and ProtoJSON, using tables of their fields. Members without a table
 * entry are dropped, because the binary form has no field for them; fields without a table entry are skipped.
 */
import { isObject, type JsonObject, type JsonValue } from '../../jsonrpc/raw.js';
import { BYTES, FIXED64, ProtoSyntaxError, Reader, VARINT, Writer } from './binary-format.js';

type ScalarType = 'string' | 'bytes' | 'bool' | 'flag' | 'int32' | 'timestamp' | 'struct' | 'value';

/**
 * A field as `number type`. The type is a scalar, an enum or another message; `type[]` is repeated, `<type>` is a map
 * with string keys. A `flag` is a boolean whose absence means false here, although its absence in JSON has another
 * meaning.
 */
export type Fields = Readonly<Record<string, `${number} ${string}`>>;

export interface Schema {
  readonly messages: Readonly<Record<string, Fields>>;
  readonly enums: Readonly<Record<string, readonly string[]>>;
}

export interface Field {
  readonly name: string;
  readonly number: number;
  readonly type: string;
  readonly shape: 'one' | 'many' | 'map';
}

interface Table {
  readonly byName: ReadonlyMap<string, Field>;
  readonly byNumber: ReadonlyMap<number, Field>;
}

const SCALARS: ReadonlySet<string> = new Set<ScalarType>([
  'string',
  'bytes',
  'bool',
  'flag',
  'int32',
  'timestamp',
  'struct',
  'value',
]);

/** The nesting limit for messages, equal to the limit for JSON. */
const DEEPEST = 64;

export class Codec {
  private readonly tables = new Map<string, Table>();

  constructor(private readonly schema: Schema) {
    for (const [message, fields] of Object.entries(schema.messages)) {
      const list = Object.entries(fields).map(([name, text]) => fieldOf(name, text));
      this.tables.set(message, {
        byName: new Map(list.map((field) => [field.name, field])),
        byNumber: new Map(list.map((field) => [field.number, field])),
      });
    }
  }

  encode(message: string, value: JsonObject): Buffer {
    const writer = new Writer();
    const { byName } = this.table(message);
    for (const name in value) {
      const field = byName.get(name);
      const given = value[name];
      // An absent value is not written. Null is written only in fields that hold any JSON value.
      if (!field || given === undefined || (given === null && field.type !== 'value')) continue;
      this.writeField(writer, field, given);
    }
    return writer.finish();
  }

  decode(message: string, source: Buffer): JsonObject {
    return this.read(message, source, 0);
  }

  private table(message: string): Table {
    const table = this.tables.get(message);
    if (!table) throw new RangeError(`unknown message type ${message}`);
    return table;
  }

  private writeField(writer: Writer, field: Field, value: JsonValue): void {
    if (field.shape === 'many') {
      for (const item of Array.isArray(value) ? value : []) this.writeOne(writer, field, item);
    } else if (field.shape === 'map') {
      for (const [key, item] of Object.entries(isObject(value) ? value : {})) {
        const entry = new Writer().tag(1, BYTES).bytes(Buffer.from(key));
        this.writeOne(entry, { ...field, number: 2 }, item as JsonValue);
        writer.tag(field.number, BYTES).bytes(entry.finish());
      }
    } else this.writeOne(writer, field, value);
  }

  private writeOne(writer: Writer, { number, type }: Field, value: JsonValue): void {
    switch (type) {
      case 'string':
        writer.tag(number, BYTES).bytes(Buffer.from(String(value)));
        return;
      case 'bytes':
        writer.tag(number, BYTES).bytes(Buffer.from(String(value), 'base64'));
        return;
      case 'bool':
      case 'flag':
        writer.tag(number, VARINT).varint(value === true ? 1 : 0);
        return;
      case 'int32':
        writer.tag(number, VARINT).varint(Math.trunc(Number(value)));
        return;
      case 'timestamp':
        writer.tag(number, BYTES).bytes(encodeTimestamp(String(value)));
        return;
      case 'struct':
        writer.tag(number, BYTES).bytes(encodeStruct(isObject(value) ? value : {}));
        return;
      case 'value':
        writer.tag(number, BYTES).bytes(encodeValue(value));
        return;
      default: {
        const names = this.schema.enums[type];
        if (names) writer.tag(number, VARINT).varint(Math.max(0, names.indexOf(String(value))));
        else writer.tag(number, BYTES).bytes(this.encode(type, isObject(value) ? value : {}));
      }
    }
  }

  private read(message: string, source: Buffer, depth: number): JsonObject {
    if (depth > DEEPEST) throw new ProtoSyntaxError(`the message nests deeper than ${DEEPEST} levels`);
    const { byNumber } = this.table(message);
    const reader = new Reader(source);
    const value: JsonObject = {};
    for (const { name, type } of byNumber.values()) if (type === 'flag') value[name] = false;
    while (!reader.done) {
      const tag = reader.varint();
      const field = byNumber.get(Math.floor(tag / 8));
      const wire = tag % 8;
      if (!field || wire !== this.wireOf(field)) {
        reader.skip(wire);
        continue;
      }
      const { name, shape } = field;
      if (shape === 'many') {
        value[name] ??= [];
        (value[name] as JsonValue[]).push(this.readOne(reader, field.type, depth));
      } else if (shape === 'map') {
        value[name] ??= {};
        const [key, item] = this.readEntry(reader.bytes(), field.type, depth);
        // The key is data from the peer: a plain assignment to `__proto__` would change the prototype.
        Object.defineProperty(value[name], key, { value: item, enumerable: true, configurable: true, writable: true });
      } else value[name] = this.readOne(reader, field.type, depth);
    }
    return value;
  }

  private wireOf({ type, shape }: Field): number {
    if (shape === 'map') return BYTES;
    return type === 'bool' || type === 'flag' || type === 'int32' || this.schema.enums[type] ? VARINT : BYTES;
  }

  private readEntry(source: Buffer, type: string, depth: number): [string, JsonValue] {
    const reader = new Reader(source);
    let key = '';
    let item: JsonValue = type === 'string' ? '' : {};
    while (!reader.done) {
      const tag = reader.varint();
      if (tag === 8 + BYTES) key = reader.bytes().toString('utf8');
      else if (tag === 16 + BYTES) item = this.readOne(reader, type, depth);
      else reader.skip(tag % 8);
    }
    return [key, item];
  }

  private readOne(reader: Reader, type: string, depth: number): JsonValue {
    switch (type) {
      case 'string':
        return reader.bytes().toString('utf8');
      case 'bytes':
        return reader.bytes().toString('base64');
      case 'bool':
      case 'flag':
        return reader.varint() !== 0;
      case 'int32':
        return reader.varint() | 0;
      case 'timestamp':
        return decodeTimestamp(reader.bytes());
      case 'struct':
        return decodeStruct(reader.bytes(), depth + 1);
      case 'value':
        return decodeValue(reader.bytes(), depth + 1);
      default: {
        const names = this.schema.enums[type];
        if (!names) return this.read(type, reader.bytes(), depth + 1);
        return names[reader.varint()] ?? names[0]!;
      }
    }
  }
}

export function fieldOf(name: string, text: string): Field {
  const [number, type = ''] = text.split(' ');
  const shape = type.endsWith('[]') ? 'many' : type.startsWith('<') ? 'map' : 'one';
  return { name, number: Number(number), type: type.replace(/\[\]$|[<>]/g, ''), shape };
}

/** The types that a schema names but does not define. A test checks the tables, not every start. */
export function unknownTypes({ messages, enums }: Schema): string[] {
  return Object.values(messages)
    .flatMap((fields) => Object.entries(fields).map(([name, text]) => fieldOf(name, text).type))
    .filter((type) => !SCALARS.has(type) && !messages[type] && !enums[type]);
}

// google.protobuf.Timestamp: seconds = 1, nanos = 2.

function encodeTimestamp(text: string): Buffer {
  const time = Date.parse(text);
  const millis = Number.isNaN(time) ? 0 : time;
  const seconds = Math.floor(millis / 1000);
  const fraction = /\.(\d{1,9})/.exec(text)?.[1];
  const nanos = fraction === undefined ? 0 : Number(fraction.padEnd(9, '0'));
  const writer = new Writer();
  if (seconds !== 0) writer.tag(1, VARINT).varint(seconds);
  if (nanos !== 0) writer.tag(2, VARINT).varint(nanos);
  return writer.finish();
}

function decodeTimestamp(source: Buffer): string {
  const reader = new Reader(source);
  let seconds = 0;
  let nanos = 0;
  while (!reader.done) {
    const tag = reader.varint();
    if (tag === 8) seconds = reader.varint();
    else if (tag === 16) nanos = reader.varint();
    else reader.skip(tag % 8);
  }
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) throw new ProtoSyntaxError('a timestamp is out of range');
  const digits = String(nanos).padStart(9, '0');
  const fraction = nanos % 1_000_000 === 0 ? digits.slice(0, 3) : digits;
  return date.toISOString().replace(/\.\d{3}Z$/, `.${fraction}Z`);
}

// google.protobuf.Struct: a map of values, fields = 1. Value: null = 1, number = 2, string = 3, bool = 4, struct = 5,
// list = 6; ListValue: values = 1.

function encodeStruct(value: JsonObject): Buffer {
  const writer = new Writer();
  for (const [key, item] of Object.entries(value)) {
    if (item === undefined) continue;
    const entry = new Writer().tag(1, BYTES).bytes(Buffer.from(key)).tag(2, BYTES).bytes(encodeValue(item));
    writer.tag(1, BYTES).bytes(entry.finish());
  }
  return writer.finish();
}

function encodeValue(value: JsonValue): Buffer {
  const writer = new Writer();
  if (value === null) writer.tag(1, VARINT).varint(0);
  else if (typeof value === 'number') writer.tag(2, FIXED64).double(value);
  else if (typeof value === 'string') writer.tag(3, BYTES).bytes(Buffer.from(value));
  else if (typeof value === 'boolean') writer.tag(4, VARINT).varint(value ? 1 : 0);
  else if (Array.isArray(value)) {
    const list = new Writer();
    for (const item of value) list.tag(1, BYTES).bytes(encodeValue(item));
    writer.tag(6, BYTES).bytes(list.finish());
  } else writer.tag(5, BYTES).bytes(encodeStruct(value));
  return writer.finish();
}

function decodeStruct(source: Buffer, depth: number): JsonObject {
  if (depth > DEEPEST) throw new ProtoSyntaxError(`a value nests deeper than ${DEEPEST} levels`);
  const reader = new Reader(source);
  const entries: [string, JsonValue][] = [];
  while (!reader.done) {
    const tag = reader.varint();
    if (tag !== 8 + BYTES) {
      reader.skip(tag % 8);
      continue;
    }
    const entry = new Reader(reader.bytes());
    let key = '';
    let item: JsonValue = null;
    while (!entry.done) {
      const inner = entry.varint();
      if (inner === 8 + BYTES) key = entry.bytes().toString('utf8');
      else if (inner === 16 + BYTES) item = decodeValue(entry.bytes(), depth + 1);
      else entry.skip(inner % 8);
    }
    entries.push([key, item]);
  }
  return Object.fromEntries(entries);
}

function decodeValue(source: Buffer, depth: number): JsonValue {
  if (depth > DEEPEST) throw new ProtoSyntaxError(`a value nests deeper than ${DEEPEST} levels`);
  const reader = new Reader(source);
  let value: JsonValue = null;
  while (!reader.done) {
    const tag = reader.varint();
    switch (tag) {
      case 8:
        reader.varint();
        value = null;
        break;
      case 16 + FIXED64:
        value = reader.double();
        break;
      case 24 + BYTES:
        value = reader.bytes().toString('utf8');
        break;
      case 32:
        value = reader.varint() !== 0;
        break;
      case 40 + BYTES:
        value = decodeStruct(reader.bytes(), depth + 1);
        break;
      case 48 + BYTES:
        value = decodeList(reader.bytes(), depth + 1);
        break;
      default:
        reader.skip(tag % 8);
    }
  }
  return value;
}

function decodeList(source: Buffer, depth: number): JsonValue[] {
  const reader = new Reader(source);
  const list: JsonValue[] = [];
  while (!reader.done) {
    const tag = reader.varint();
    if (tag === 8 + BYTES) list.push(decodeValue(reader.bytes(), depth));
    else reader.skip(tag % 8);
  }
  return list;
}
