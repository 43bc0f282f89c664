import { expect, it } from 'vitest';
import { stem } from './porter2.js';

it.each([
  ['connections', 'connect'],
  ['connected', 'connect'],
  ['generate', 'generat'],
  ['generously', 'generous'],
  ['hopping', 'hop'],
  ['hoped', 'hope'],
  ['cries', 'cri'],
  ['ties', 'tie'],
  ['gas', 'gas'],
  ['agreed', 'agre'],
  ['relational', 'relat'],
  ['cardiologist', 'cardiolog'],
  ['happiness', 'happi'],
  ['dying', 'die'],
  ['news', 'news'],
  ['international', 'internat'],
  ['say', 'say'],
  ['by', 'by'],
  ['controll', 'control'],
])('stems %s to %s', (word, expected) => {
  expect(stem(word)).toBe(expected);
});
