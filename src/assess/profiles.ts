/** Profiles: which requirements count, and with which weights. */
import type { Requirement } from './requirement.js';

export interface Category {
  readonly name: string;
  readonly weight: number;
  readonly has: (requirement: Requirement) => boolean;
}

export interface Profile {
  readonly name: string;
  readonly description: string;
  /** The weights of the categories of each protocol sum to 100. */
  readonly categories: Readonly<Record<Requirement['protocol'], readonly Category[]>>;
}

const byCategory = (name: string, weight: number): Category => ({
  name,
  weight,
  has: ({ category }) => category === name,
});

/** A category by the beginnings of requirement ids. */
const byId = (name: string, weight: number, ...beginnings: string[]): Category => ({
  name,
  weight,
  has: ({ id }) => beginnings.some((beginning) => id.startsWith(beginning)),
});

/** A category by the numbers of requirements of A2A, with or without a letter. */
const byNumber = (name: string, weight: number, ...numbers: string[]): Category => ({
  name,
  weight,
  has: ({ id }) => numbers.includes(id.replace(/^A2A-/, '').replace(/[a-z]$/, '')),
});

/** The ratio 3 : 2 : 1 for four, four and two categories, rounded so that their sum is 100. */
const [HIGH, MEDIUM, LOW] = [13.6, 9.1, 4.6];

export const PROFILES: readonly Profile[] = [
  {
    name: 'standard',
    description: 'Every requirement of the specifications that can be observed.',
    categories: {
      MCP: [
        byCategory('Base protocol', 20),
        byCategory('Versions and life cycle', 15),
        byCategory('Transport', 20),
        byCategory('Tools', 15),
        byCategory('Resources and prompts', 10),
        byCategory('Utilities', 10),
        byCategory('Security', 10),
      ],
      A2A: [
        byCategory('Card', 15),
        byCategory('Versions', 10),
        byCategory('Messages and tasks', 30),
        byCategory('Streaming', 15),
        byCategory('Push', 10),
        byCategory('Errors and format', 15),
        byCategory('Security', 5),
      ],
    },
  },
  {
    name: 'founding',
    description: 'The categories and weights of the reviews from which Parley began.',
    categories: {
      MCP: [
        byId('Transport', 20, 'HM-0', 'HM-1', 'HL-0', 'HDR', 'SSE', 'STD'),
        byId('Session', 10, 'HL-1'),
        byId('Core methods', 25, 'BASE', 'TOOL-0', 'TOOL-1', 'RES', 'PRM'),
        byId('Extended methods', 15, 'CMP', 'LOG', 'SUB', 'TSK', 'MRTR', 'ELI', 'SMP', 'PAG', 'CACHE'),
        byId('Notifications and life cycle', 10, 'LIFE', 'META', 'VER', 'BR', 'PRG', 'CAN'),
        byId('Schema validation', 10, 'TOOL-2', 'JSC', 'APP', 'XMH', 'EXT', 'ICON'),
        byId('Spec currency', 10, 'CUR'),
      ],
      A2A: [
        byNumber('Card', 15, 'S-1', 'S-2', 'S-3', 'S-4', 'S-5'),
        byNumber('Life cycle', 20, 'S-20', 'S-21', 'S-24', 'S-26', 'S-27', 'S-28'),
        byNumber('Streaming', 15, 'S-40', 'S-41', 'S-42', 'S-43', 'S-44'),
        byNumber('Push', 10, 'S-50', 'S-51'),
        byNumber('History', 5, 'S-29'),
        byNumber('Authentication', 10, 'S-60', 'S-61'),
        byNumber('Errors', 10, 'S-70', 'S-71'),
        byNumber('Multi-turn', 5, 'S-25'),
        byNumber('Artifacts', 5, 'S-76'),
        byNumber('Message format', 5, 'S-30', 'S-72'),
      ],
    },
  },
  {
    name: 'first-review',
    description:
      'The ten categories of the first of these reviews. High, Medium and Low count 3 : 2 : 1, rounded to a sum of 100.',
    categories: {
      MCP: [
        byId('Versions and life cycle', HIGH, 'LIFE-05', 'LIFE-07', 'LIFE-1', 'VER-01', 'VER-08', 'VER-10', 'CUR'),
        byId('Transport', HIGH, 'HM', 'HL-0', ...[0, 1, 2, 3, 4, 6, 7].map((n) => `HL-1${n}`), 'HDR', 'SSE', 'STD'),
        byId('Tools', HIGH, 'TOOL', 'JSC', 'APP', 'XMH', 'PAG', 'ICON', 'TSK'),
        byId('Resources', MEDIUM, 'RES', 'SUB', 'CACHE'),
        byId('Prompts', MEDIUM, 'PRM', 'CMP'),
        byId('Capability negotiation', HIGH, 'LIFE-02', 'LIFE-09', 'META', 'VER-03', 'VER-05', 'VER-06', 'EXT'),
        byId('Authorization', MEDIUM, 'AUR', 'HL-18', 'SEC'),
        byId('Errors', MEDIUM, 'BASE'),
        byId('Sampling', LOW, 'SMP', 'ELI', 'MRTR'),
        byId('Observability', LOW, 'LOG', 'PRG', 'CAN'),
      ],
      A2A: [],
    },
  },
  {
    name: 'openai',
    description: 'What OpenAI requires of a remote MCP server.',
    categories: {
      MCP: [
        byId('Tools', 50, 'OAI-01', 'OAI-02', 'OAI-03', 'TOOL-01'),
        byId('Results', 25, 'OAI-04', 'OAI-05', 'TOOL-20'),
        byId('Base protocol', 15, 'BASE-0', 'BASE-10', 'LIFE-02'),
        byId('Authorization', 10, 'OAI-06', 'AUR-02'),
      ],
      A2A: [],
    },
  },
  {
    name: 'security',
    description: 'The security requirements that can be observed from outside.',
    categories: {
      MCP: [
        byId('Web sites', 40, 'HM-02', 'HM-03', 'SEC-03'),
        byId('Sessions and tokens', 40, 'HL-12', 'HL-14', 'HL-18', 'AUR'),
        byId('Disclosure', 20, 'SEC-01', 'SEC-02', 'SSE-01a', 'LOG-05', 'XMH-08', 'ELI-03', 'TSKX-11'),
      ],
      A2A: [byNumber('Authentication', 60, 'S-60', 'S-61'), byNumber('Disclosure', 40, 'SEC-02', 'S-26')],
    },
  },
  {
    name: 'performance',
    description: 'Habits that keep clients fast and conversations short.',
    categories: {
      MCP: [
        byId('Lists', 50, 'PERF-01', 'PERF-02', 'PERF-05'),
        byId('Descriptions', 25, 'PERF-03'),
        byId('Connections', 25, 'PERF-04', 'HM-07', 'HM-09', 'HL-04'),
      ],
      A2A: [byNumber('Card', 100, 'S-4')],
    },
  },
];

export const profileOf = (name: string): Profile | undefined => PROFILES.find((profile) => profile.name === name);
