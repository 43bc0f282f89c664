import { describe, expect, test } from 'vitest';
import { Ranking, wordsOf } from './ranking.js';

const passage = (key: string, text: string) => ({ key, fields: [{ text, weight: 1 }] });

describe('words', () => {
  test('forms of a word meet, and words that say nothing are left out', () => {
    expect(wordsOf('Please help me booking flights')).toEqual(wordsOf('booked a flight'));
    expect(wordsOf('planning')).toEqual(wordsOf('plan'));
    expect(wordsOf('translations')).toEqual(wordsOf('translation'));
    expect(wordsOf('translate')).toEqual(wordsOf('translating'));
    expect(wordsOf('currencies')).toEqual(wordsOf('currency'));
  });
  test('names in one word are several, and accents do not matter', () => {
    expect(wordsOf('getWeatherForecast café_menu')).toEqual(['weather', 'forecast', 'cafe', 'menu']);
  });
  test('scripts without spaces and other alphabets are words too', () => {
    expect(wordsOf('погода в Москве')).toEqual(['погода', 'в', 'москве']);
  });
});

describe('ranking (G-4)', () => {
  const ranking = new Ranking([
    passage('weather', 'Weather forecast for cities: rain, sun, temperature'),
    passage('travel', 'Books flights and hotels for travel between cities'),
    passage('math', 'Solves equations'),
  ]);

  test('the text that shares the rare words comes first', () => {
    expect(ranking.rank('will it rain tomorrow?')[0]?.key).toBe('weather');
    expect(ranking.rank('I want to book a hotel')[0]?.key).toBe('travel');
    expect(ranking.rank('solve this equation')[0]?.key).toBe('math');
  });
  test('nothing in common is nothing', () => {
    expect(ranking.rank('hello there').map(({ score }) => score)).toEqual([0, 0, 0]);
  });
  test('equals stay in the order they were given in', () => {
    const twins = new Ranking([passage('b', 'the same text'), passage('a', 'the same text')]);
    expect(twins.rank('text').map(({ key }) => key)).toEqual(['b', 'a']);
  });
});
