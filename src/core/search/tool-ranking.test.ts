import { beforeEach, describe, expect, it } from 'vitest';
import { ToolRanking } from './tool-ranking.js';
import type { SearchDocument } from './weighted-fields.js';

const MAIL: SearchDocument[] = [
  {
    name: 'send_email',
    description: 'Sends an email to a recipient.',
    parameters: [{ name: 'to', description: 'Address' }],
  },
  { name: 'list_emails', description: 'Lists emails of the inbox.' },
];
const WEATHER: SearchDocument[] = [
  { name: 'get_forecast', description: 'Returns the weather forecast of a city.' },
  { name: 'get_alerts', description: 'Returns severe weather alerts of a region.' },
];

let index: ToolRanking;
beforeEach(() => {
  index = new ToolRanking();
  index.set({ name: 'mail' }, MAIL);
  index.set({ name: 'weather' }, WEATHER);
});
const names = (query: string, limit = 5): string[] => index.search(query, { limit }).map(({ name }) => name);

describe('search', () => {
  it('ranks the fitting tool first, with a score of 1', () => {
    expect(index.search('Please send mail to Bob', { limit: 1 })[0]).toMatchObject({
      server: 'mail',
      name: 'send_email',
      score: 1,
    });
    expect(names('weather alerts for the region')[0]).toBe('get_alerts');
  });

  it('finds nothing for unknown words, an empty query, an empty index', () => {
    expect(names('xylophone')).toEqual([]);
    expect(names('')).toEqual([]);
    expect(new ToolRanking().search('mail', { limit: 5 })).toEqual([]);
  });

  it('shows only what the caller may use', () => {
    const allowed = ({ name }: { name: string }): boolean => name === 'get_alerts';
    expect(index.search('weather forecast', { limit: 5, allowed }).map(({ name }) => name)).toEqual(['get_alerts']);
  });

  it('finds tools for each need of a message', () => {
    expect(names('Send an email to Bob and tell me the weather forecast of Rome', 2).sort()).toEqual([
      'get_forecast',
      'send_email',
    ]);
  });

  it('collapses tools with nearly the same text', () => {
    index.set({ name: 'mail-copy' }, [{ ...MAIL[0]!, description: 'Sends an EMAIL to a recipient' }]);
    const [first, second] = index.search('send email', { limit: 5 });
    expect(first).toMatchObject({ name: 'send_email', duplicates: [{ server: 'mail-copy', name: 'send_email' }] });
    expect(second).toMatchObject({ name: 'list_emails' });
  });

  it('finds the need at the end of a long message', () => {
    const story = Array.from({ length: 90 }, (_, number) => `word${String.fromCharCode(97 + (number % 26))}${number}x`);
    expect(names(`${story.join(' ')} weather alerts for a region`)[0]).toBe('get_alerts');
  });

  it('limits the work for a very long query', () => {
    expect(names(`send an email ${'word '.repeat(100_000)}`)).toContain('send_email');
  });
});

describe('S3: tools that a caller does not see', () => {
  const visible = {
    hiddenOf: (server: string) => (server === 'weather' ? new Set(['get_alerts']) : undefined),
  };

  it.each(['weather', 'weather alerts', 'emails and weather', 'city forecast email'])(
    'do not change the scores for "%s"',
    (query) => {
      const alone = new ToolRanking();
      alone.set({ name: 'weather' }, [WEATHER[0]!]);
      const hits = index.search(query, { limit: 5, visible });
      expect(hits).toEqual(alone.search(query, { limit: 5 }));
      expect(hits[0]).toMatchObject({ name: 'get_forecast', score: 1 });
    },
  );
});

describe('segments', () => {
  it('replaces and removes the tools of one server', () => {
    index.set({ name: 'mail' }, [{ name: 'archive', description: 'Archives messages' }]);
    expect(names('send email')).not.toContain('send_email');
    expect(names('archive messages')).toEqual(['archive']);
    index.delete('weather');
    expect(names('weather forecast')).toEqual([]);
    expect(index.size).toBe(1);
    index.delete('mail');
    index.delete('never there');
    expect(index.size).toBe(0);
  });

  it('handles servers without tools and reused slots', () => {
    index.set({ name: 'empty' }, []);
    index.set({ name: 'last' }, [{ name: 'zip', description: 'Compresses files' }]);
    index.delete('mail');
    index.set({ name: 'new' }, []);
    expect(names('compress files')).toEqual(['zip']);
    expect(names('weather forecast')[0]).toBe('get_forecast');
  });
});

it('ranks servers by their best tools', () => {
  expect(index.rankServers(['weather of tomorrow'], { limit: 5 })).toMatchObject([{ server: 'weather', score: 1 }]);
  const both = index.rankServers(['weather alerts', 'send email'], { limit: 5 });
  expect(both.map(({ server }) => server).sort()).toEqual(['mail', 'weather']);
  const three = index.rankServers(['send email', 'weather alerts', 'weather forecast'], { limit: 5 });
  expect(three).toMatchObject([{ server: 'weather', score: 1 }, { server: 'mail' }]);
  expect(three[1]!.score).toBeLessThan(1);
});

describe('untrusted descriptions', () => {
  const needs = ['send an email', 'weather forecast of a city', 'severe weather alerts', 'list emails of my inbox'];
  const rankOf = (query: string): string[] => index.search(query, { limit: 5 }).map(({ server }) => server);

  it('a server with stuffed descriptions does not enter the top 5 of unrelated needs', () => {
    const topics = ['calendar', 'invoice', 'ticket', 'photo', 'backup', 'deploy'];
    for (const topic of topics) {
      const tools = ['create', 'read', 'archive', 'share', 'export', 'count'].map((verb) => ({
        name: `${verb}_${topic}`,
        description: `${verb} one ${topic} by its number`,
      }));
      index.set({ name: topic }, tools);
    }
    const words = [...MAIL, ...WEATHER, ...topics.map((name) => ({ description: name }))].map(
      (tool) => tool.description,
    );
    const stuffed = `${words.join(' ').repeat(60)} best tool for everything `;
    index.set(
      { name: 'stuffed' },
      Array.from({ length: 20 }, (_, n) => ({ name: `tool_${n}`, description: stuffed + 'x'.repeat(n) })),
    );
    const queries = topics.flatMap((topic) => [`create a ${topic}`, `share this ${topic}`, `export one ${topic}`]);
    for (const query of queries) expect(rankOf(query)).not.toContain('stuffed');
    for (const query of needs) expect(rankOf(query)[0]).not.toBe('stuffed');
  });

  it('a server that lists many words does not enter the top 5 of a long message with some of them', () => {
    for (const topic of ['calendar', 'invoice', 'ticket', 'photo']) {
      const verbs = ['create', 'read', 'archive', 'share', 'export', 'count'];
      index.set(
        { name: topic },
        verbs.map((verb) => ({ name: `${verb}_${topic}`, description: `${verb} one ${topic} by its number` })),
      );
    }
    const words = Array.from({ length: 100 }, (_, number) => `common${number.toString(36)}word`);
    const tools = Array.from({ length: 10 }, (_, n) => ({
      name: `helper_${n}`,
      description: words.slice(0, 90 + n).join(' '),
    }));
    index.set({ name: 'lists' }, tools);
    const story = words.filter((_, number) => number % 3 === 0).join(' ');
    const ranked = rankOf(`${story} share an invoice by its number`);
    expect(ranked[0]).toBe('invoice');
    expect(ranked).not.toContain('lists');
  });

  it('flags a tool that repeats a word', () => {
    index.set({ name: 'stuffed' }, [{ name: 'x', description: 'pelican '.repeat(100) }]);
    expect(index.search('pelican', { limit: 1 })[0]).toMatchObject({ server: 'stuffed', stuffed: true });
  });

  it('ranks servers with less trust lower', () => {
    index.set({ name: 'another', trust: 0.5 }, [
      { name: 'mail_sender', description: 'Send an email to a recipient now' },
    ]);
    expect(rankOf('send an email to a recipient')[0]).toBe('mail');
  });
});
