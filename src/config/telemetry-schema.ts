import { assessToken, TOKEN_FIX } from '../identity/token-strength.js';
import { flag, group, integer, oneOf, secret } from './field.js';
import type { Reading } from './validate.js';

/** The keys of metrics and traces. */
export const telemetry = {
  metrics: group('Metrics for Prometheus, at `/metrics`. See [telemetry.md](telemetry.md).', {
    enabled: flag({ default: true, description: 'Whether calls are counted and `/metrics` is served.' }),
    access: oneOf(['admin', 'public'], {
      default: 'admin',
      description:
        'Who reads `/metrics`: administrators, or everybody, in which case the metrics contain no names of servers, agents ' +
        'and tools.',
    }),
    token: secret({
      description: 'A bearer token that reads `/metrics` and nothing else, for Prometheus.',
    }),
  }),
  tracing: group(
    'Traces over OTLP. They are on if the variable `OTEL_EXPORTER_OTLP_ENDPOINT` or ' +
      '`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set. See [telemetry.md](telemetry.md).',
    {
      enabled: flag({ default: true, description: 'Whether the gateway makes spans if an endpoint for them is set.' }),
      samplePercent: integer({
        default: 5,
        min: 0,
        max: 100,
        description:
          'The exported part of the traces that begin at the gateway, in percent; the variables `OTEL_TRACES_SAMPLER` and ' +
          '`OTEL_TRACES_SAMPLER_ARG` win over it, and a trace of a client keeps the decision of the client.',
      }),
      exportErrors: flag({
        default: true,
        description: 'Whether the spans of a failed call are exported although its trace is not sampled.',
      }),
    },
  ),
};

interface Written {
  readonly metrics: { readonly token?: string | undefined; readonly access: string; readonly enabled: boolean };
}

/** Rules about metrics that concern several keys. */
export function telemetryRules({ metrics }: Written, { problems, origins }: Reading): void {
  const key = 'metrics.token';
  for (const finding of metrics.token === undefined ? [] : assessToken(metrics.token)) {
    const message = `the token of the metrics ${finding.message}`;
    if (finding.severity === 'error') problems.error('token', key, message, TOKEN_FIX, origins.get(key));
    else problems.warn('token', key, message, TOKEN_FIX, origins.get(key));
  }
  if (metrics.token !== undefined && metrics.access === 'public')
    problems.warn(
      'conflict',
      key,
      'has no effect, because everybody may read the metrics',
      'remove metrics.token, or metrics.access: public',
      origins.get(key),
    );
}
