import { stringify } from 'yaml';
import { type LoadOptions, loadConfig } from '../config/load.js';
import { ConfigError, formatOrigin, formatProblem, type Problem } from '../config/problem.js';

export interface CheckOutput {
  readonly code: 0 | 1;
  readonly stdout: string;
  readonly stderr: string;
}

/** `parley config check`: prints the configuration in effect, or every error. */
export function checkConfig(options: LoadOptions, json: boolean): CheckOutput {
  try {
    const { file, warnings, shown } = loadConfig(options);
    if (json) {
      const report = { ok: true, file: file ?? null, errors: [], warnings: warnings.map(asJson), config: shown };
      return { code: 0, stdout: `${JSON.stringify(report, null, 2)}\n`, stderr: '' };
    }
    const source = file ?? 'no file, environment variables only';
    const count =
      warnings.length === 0 ? 'valid' : `valid, ${warnings.length} warning${warnings.length === 1 ? '' : 's'}`;
    return {
      code: 0,
      stdout: `# ${source}: ${count}\n${stringify(shown)}`,
      stderr: warnings.map((warning) => `${formatProblem(warning)}\n`).join(''),
    };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const { problems } = error;
    if (!json)
      return { code: 1, stdout: '', stderr: problems.map((problem) => `${formatProblem(problem)}\n`).join('') };
    const of = (severity: Problem['severity']) =>
      problems.filter((problem) => problem.severity === severity).map(asJson);
    const report = {
      ok: false,
      file: options.file ?? null,
      errors: of('error'),
      warnings: of('warning'),
      config: null,
    };
    return { code: 1, stdout: `${JSON.stringify(report, null, 2)}\n`, stderr: '' };
  }
}

function asJson({ code, key, message, fix, origin }: Problem): Record<string, unknown> {
  return { code, key, message, fix, at: formatOrigin(origin) || null };
}
