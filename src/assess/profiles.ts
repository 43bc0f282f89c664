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
        byId('Extended methods', 15, 'CMP', 'LOG', 'SUB', 'TSK', 'MRTR', 'PAG', 'CACHE'),
        byId('Notifications and life cycle', 10, 'LIFE', 'META', 'VER', 'PRG', 'CAN'),
        byId('Schema validation', 10, 'TOOL-2', 'XMH', 'EXT', 'ICON'),
        byId('Spec currency', 10, 'CUR'),
      ],
      A2A: [
        byId('Card', 15, 'A2A-S-1', 'A2A-S-2a', 'A2A-S-2b', 'A2A-S-3', 'A2A-S-4a', 'A2A-S-4b', 'A2A-S-5'),
        byId('Life cycle', 20, 'A2A-S-20', 'A2A-S-21', 'A2A-S-23', 'A2A-S-24', 'A2A-S-26', 'A2A-S-27', 'A2A-S-28'),
        byId('Streaming', 15, 'A2A-S-40', 'A2A-S-41', 'A2A-S-42', 'A2A-S-43', 'A2A-S-44'),
        byId('Push', 10, 'A2A-S-50', 'A2A-S-51'),
        byId('History', 5, 'A2A-S-29'),
        byId('Authentication', 10, 'A2A-S-60', 'A2A-S-61'),
        byId('Errors', 10, 'A2A-S-70', 'A2A-S-71'),
        byId('Multi-turn', 5, 'A2A-S-25'),
        byId('Artifacts', 5, 'A2A-S-76'),
        byId('Message format', 5, 'A2A-S-30', 'A2A-S-31', 'A2A-S-72'),
      ],
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
        byId('Disclosure', 20, 'SEC-01', 'SEC-02', 'SSE-01a'),
      ],
      A2A: [byId('Authentication', 60, 'A2A-S-60', 'A2A-S-61'), byId('Disclosure', 40, 'A2A-SEC', 'A2A-S-26')],
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
      A2A: [byId('Card', 100, 'A2A-S-4')],
    },
  },
];

export const profileOf = (name: string): Profile | undefined => PROFILES.find((profile) => profile.name === name);
