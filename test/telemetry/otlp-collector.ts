/** An OTLP collector in this process: protobuf over HTTP, decoded by hand. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parent: string;
  readonly name: string;
  readonly kind: 'server' | 'client' | 'other';
  readonly attributes: Readonly<Record<string, unknown>>;
  /** The trace ids of its links. */
  readonly links: readonly string[];
  readonly failed: boolean;
  readonly ms: number;
  readonly resource: Readonly<Record<string, unknown>>;
}

export interface CollectedMetric {
  readonly name: string;
  readonly unit: string;
  readonly type: 'gauge' | 'sum' | 'histogram';
  /** Whether a sum is cumulative and monotonic. */
  readonly counter: boolean;
  readonly points: readonly {
    readonly attributes: Readonly<Record<string, unknown>>;
    /** The value, or the count of a histogram. */
    readonly value: number;
    /** The sum of a histogram, and its counts by bucket. */
    readonly sum: number;
    readonly counts: readonly number[];
  }[];
}

export interface Collector {
  /** The value of OTEL_EXPORTER_OTLP_ENDPOINT. */
  readonly url: string;
  readonly spans: CollectedSpan[];
  /** The metrics of the last export, by name. */
  readonly metrics: Map<string, CollectedMetric>;
  /** Everything that arrived, as text. */
  text(): string;
  close(): Promise<void>;
}

export async function startCollector(): Promise<Collector> {
  const spans: CollectedSpan[] = [];
  const metrics = new Map<string, CollectedMetric>();
  const bodies: Buffer[] = [];
  const server = createServer(async (req, res) => {
    const body = Buffer.concat(await req.toArray());
    const signal = req.headers['content-type'] === 'application/x-protobuf' ? req.url : undefined;
    if (signal === '/v1/traces' || signal === '/v1/metrics') {
      bodies.push(body);
      if (signal === '/v1/traces') spans.push(...spansIn(body));
      else for (const metric of metricsIn(body)) metrics.set(metric.name, metric);
      res.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
    } else res.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    metrics,
    text: () => Buffer.concat(bodies).toString('latin1'),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

type Value = Buffer | bigint;
type Fields = Map<number, Value[]>;

/** The fields of one message, by their numbers. */
function fieldsOf(bytes: Buffer): Fields {
  const fields: Fields = new Map();
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++]!;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const take = (length: number): Buffer => {
    at += length;
    return bytes.subarray(at - length, at);
  };
  while (at < bytes.length) {
    const key = Number(varint());
    const type = key & 7;
    const value =
      type === 0 ? varint() : type === 1 ? take(8).readBigUInt64LE() : take(type === 5 ? 4 : Number(varint()));
    fields.set(key >> 3, [...(fields.get(key >> 3) ?? []), value]);
  }
  return fields;
}

const messages = (fields: Fields, number: number): Fields[] =>
  (fields.get(number) ?? []).map((value) => fieldsOf(value as Buffer));
const bytesAt = (fields: Fields, number: number): Buffer =>
  (fields.get(number)?.[0] as Buffer | undefined) ?? Buffer.alloc(0);
const numberAt = (fields: Fields, number: number): bigint => (fields.get(number)?.[0] as bigint | undefined) ?? 0n;

function attributesIn(list: readonly Fields[]): Record<string, unknown> {
  return Object.fromEntries(
    list.map((pair) => {
      const value = fieldsOf(bytesAt(pair, 2));
      const read = value.has(1)
        ? bytesAt(value, 1).toString()
        : value.has(2)
          ? numberAt(value, 2) === 1n
          : Number(numberAt(value, 3));
      return [bytesAt(pair, 1).toString(), read];
    }),
  );
}

const KINDS = { 2: 'server', 3: 'client' } as const;

/** The spans of an ExportTraceServiceRequest. */
function spansIn(body: Buffer): CollectedSpan[] {
  return messages(fieldsOf(body), 1).flatMap((ofResource) => {
    const resource = attributesIn(messages(fieldsOf(bytesAt(ofResource, 1)), 1));
    return messages(ofResource, 2)
      .flatMap((ofScope) => messages(ofScope, 2))
      .map((span) => ({
        traceId: bytesAt(span, 1).toString('hex'),
        spanId: bytesAt(span, 2).toString('hex'),
        parent: bytesAt(span, 4).toString('hex'),
        name: bytesAt(span, 5).toString(),
        kind: KINDS[Number(numberAt(span, 6)) as 2 | 3] ?? 'other',
        attributes: attributesIn(messages(span, 9)),
        links: messages(span, 13).map((link) => bytesAt(link, 1).toString('hex')),
        failed: messages(span, 15).some((status) => numberAt(status, 3) === 2n),
        ms: Number(numberAt(span, 8) - numberAt(span, 7)) / 1e6,
        resource,
      }));
  });
}

const doubleAt = (fields: Fields, number: number): number => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(numberAt(fields, number));
  return bytes.readDoubleLE();
};

/** The metrics of an ExportMetricsServiceRequest. */
function metricsIn(body: Buffer): CollectedMetric[] {
  return messages(fieldsOf(body), 1)
    .flatMap((ofResource) => messages(ofResource, 2))
    .flatMap((ofScope) => messages(ofScope, 2))
    .map((metric) => {
      const type = metric.has(5) ? 'gauge' : metric.has(7) ? 'sum' : 'histogram';
      const data = fieldsOf(bytesAt(metric, type === 'gauge' ? 5 : type === 'sum' ? 7 : 9));
      return {
        name: bytesAt(metric, 1).toString(),
        unit: bytesAt(metric, 3).toString(),
        type,
        counter: type === 'sum' && numberAt(data, 2) === 2n && numberAt(data, 3) === 1n,
        points: messages(data, 1).map((point) => ({
          attributes: attributesIn(messages(point, type === 'histogram' ? 9 : 7)),
          value: type === 'histogram' ? Number(numberAt(point, 4)) : doubleAt(point, 4),
          sum: type === 'histogram' ? doubleAt(point, 5) : 0,
          counts: type === 'histogram' ? packed(bytesAt(point, 6)) : [],
        })),
      };
    });
}

const packed = (bytes: Buffer): number[] =>
  Array.from({ length: bytes.length / 8 }, (_, at) => Number(bytes.readBigUInt64LE(at * 8)));
