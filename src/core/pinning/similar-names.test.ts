import { expect, test } from 'vitest';
import { SimilarNames } from './similar-names.js';

const names = new SimilarNames();
for (const name of ['read_file', 'search_issues', 'send_email', 'page12', 'get']) names.add('files', name);

test.each(['reаd_file', 'read_fi1e', 'read_fi|e', 'raed_file', 'send_emaill', 'serach_issues', 'ѕend_email'])(
  'S21: %s looks like a name of another server',
  (name) => {
    expect(names.find('other', name)).toMatchObject({ server: 'files' });
    expect(names.find('files', name)).toBeUndefined();
  },
);

test.each([
  'read_file',
  'readFile',
  'read-files',
  'write_file',
  'search_issue',
  'page21',
  'page112',
  'gte',
  'send_mail',
])('S21: %s does not look like a name of another server', (name) => {
  expect(names.find('other', name)).toBeUndefined();
});
