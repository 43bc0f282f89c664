import { describe, expect, test } from 'vitest';
import { Ranking, wordsOf } from './text-ranking.js';

const passage = (key: string, text: string) => ({ key, fields: [{ text, weight: 1 }] });

describe('words', () => {
  test('forms of a word are equal, and stop words are dropped', () => {
    expect(wordsOf('Please help me booking flights')).toEqual(wordsOf('booked a flight'));
    expect(wordsOf('planning')).toEqual(wordsOf('plan'));
    expect(wordsOf('translations')).toEqual(wordsOf('translation'));
    expect(wordsOf('translate')).toEqual(wordsOf('translating'));
    expect(wordsOf('currencies')).toEqual(wordsOf('currency'));
  });
  test('compound names are split, and accents are ignored', () => {
    expect(wordsOf('getWeatherForecast café_menu')).toEqual(['weather', 'forecast', 'cafe', 'menu']);
  });
  test('scripts without spaces and other alphabets yield words', () => {
    expect(wordsOf('погода в Москве')).toEqual(['погода', 'в', 'москве']);
  });
});

describe('ranking (G-4)', () => {
  const ranking = new Ranking([
    passage('weather', 'Weather forecast for cities: rain, sun, temperature'),
    passage('travel', 'Books flights and hotels for travel between cities'),
    passage('math', 'Solves equations'),
  ]);

  test('the text with the same rare words comes first', () => {
    expect(ranking.rank('will it rain tomorrow?')[0]?.key).toBe('weather');
    expect(ranking.rank('I want to book a hotel')[0]?.key).toBe('travel');
    expect(ranking.rank('solve this equation')[0]?.key).toBe('math');
  });
  test('a text without a word of the query has the score 0', () => {
    expect(ranking.rank('hello there').map(({ score }) => score)).toEqual([0, 0, 0]);
  });
  test('texts of equal score keep their order', () => {
    const equal = new Ranking([passage('b', 'the same text'), passage('a', 'the same text')]);
    expect(equal.rank('text').map(({ key }) => key)).toEqual(['b', 'a']);
  });
});
