/** The variables of OpenTelemetry that spans and metrics share: endpoints, and the description of the process. */
import type { Attributes } from '@opentelemetry/api';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Milliseconds for the last export when the gateway stops. */
export const LAST_EXPORT = 2_000;

/** Whether the environment asks for an export of this signal over OTLP. */
export function exportsTo(env: Environment, signal: 'TRACES' | 'METRICS'): boolean {
  const set = (name: string): boolean => (env[name] ?? '').trim() !== '';
  if (/^true$/i.test(env['OTEL_SDK_DISABLED'] ?? '') || env[`OTEL_${signal}_EXPORTER`] === 'none') return false;
  return set('OTEL_EXPORTER_OTLP_ENDPOINT') || set(`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`);
}

/** The number of a variable; undefined if it is not a positive number. */
export const positive = (text: string | undefined): number | undefined => (Number(text) > 0 ? Number(text) : undefined);

/** A resource in the form that the exporters of OpenTelemetry read. */
export interface OtlpResource {
  readonly attributes: Attributes;
  merge(): OtlpResource;
  getRawAttributes(): [string, Attributes[string]][];
}

/** The attributes of the process: those of `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` win. */
export function resourceOf(env: Environment, version: string): OtlpResource {
  const given = (env['OTEL_RESOURCE_ATTRIBUTES'] ?? '').split(',').flatMap((pair): [string, string][] => {
    const at = pair.indexOf('=');
    return at > 0 ? [[pair.slice(0, at).trim(), decoded(pair.slice(at + 1).trim())]] : [];
  });
  const name = env['OTEL_SERVICE_NAME']?.trim();
  const attributes: Attributes = {
    'service.name': 'parley',
    'service.version': version,
    ...Object.fromEntries(given),
    ...(name !== undefined && name !== '' && { 'service.name': name }),
  };
  const resource: OtlpResource = {
    attributes,
    merge: () => resource,
    getRawAttributes: () => Object.entries(attributes),
  };
  return resource;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
