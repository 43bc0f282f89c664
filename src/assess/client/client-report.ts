/** Grades a client by the transcript of its messages to the scripted server. */
import { sectionOf } from '../assess.js';
import { asObject, isText } from '../json.js';
import type { Profile } from '../profiles.js';
import type { Report } from '../report/model.js';
import type { Check } from '../run.js';
import { gradeOf } from '../score.js';
import { quoted } from '../wire/evidence.js';
import { CLIENT_REQUIREMENTS, clientVerdict } from './requirements.js';
import type { Transcript } from './transcript.js';

export interface ClientReportOptions {
  readonly tool: string;
  readonly profile: Profile;
  readonly started: Date;
}

export function clientReport(transcript: Transcript, { tool, profile, started }: ClientReportOptions): Report {
  const { revision, transport, heard } = transcript;
  const surface = revision === undefined ? undefined : `${revision.date} over ${transport}`;
  const checks = CLIENT_REQUIREMENTS.map((requirement): Check => {
    const verdict = clientVerdict(requirement, transcript);
    if (verdict === undefined || surface === undefined) return { requirement, outcome: 'skip', verdicts: [] };
    return { requirement, outcome: verdict.outcome, verdicts: [{ surface, verdict }] };
  });
  const sections =
    revision === undefined || surface === undefined
      ? []
      : [
          sectionOf({
            ...{ protocol: 'MCP', surfaces: [surface], versions: [revision.date], checks, profile },
            ...{ methods: methodsOf(transcript), complete: true },
          }),
        ];
  const score = sections[0]?.score ?? 0;
  return {
    format: 1,
    tool,
    target: nameOf(transcript),
    profile: profile.name,
    active: false,
    score,
    grade: gradeOf(score),
    complete: sections.length > 0,
    sections,
    notes: sections.length > 0 ? [] : ['No MCP client was recognised.'],
    changes: null,
    times: {
      started: started.toISOString(),
      milliseconds: Date.now() - started.getTime(),
      requests: heard.length,
    },
  };
}

/** The name that the client gives itself. */
function nameOf({ requests }: Transcript): string {
  for (const { message } of requests) {
    const params = asObject(message['params']);
    const meta = asObject(params['_meta']);
    const { name, version } = asObject(params['clientInfo'] ?? meta['io.modelcontextprotocol/clientInfo']);
    if (isText(name))
      return quoted(`client ${name.slice(0, 100)} ${isText(version) ? version.slice(0, 50) : ''}`, []).trim();
  }
  return 'client';
}

const SERVED: ReadonlySet<string> = new Set(['initialize', 'server/discover', 'ping', 'tools/list', 'tools/call']);

function methodsOf({ requests }: Transcript): Record<string, boolean> {
  const names = requests.map(({ message }) => quoted(String(message['method']).slice(0, 100), []));
  return Object.fromEntries([...new Set(names)].slice(0, 100).map((name) => [name, SERVED.has(name)]));
}
