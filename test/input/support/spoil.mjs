/**
 * Loaded into a gateway before it starts: memory that comes back from an answer is written over at once, as the next
 * answer would, so that whoever still looks at it shows. And it says how often some came back.
 */
import { Loans } from '../../../dist/core/loans.js';

const { take } = Loans.prototype;
let times = 0;
let said = 0;

Loans.prototype.take = function (memory) {
  times++;
  memory.fill('!');
  take.call(this, memory);
};

setInterval(() => {
  if (times === said) return;
  said = times;
  process.stderr.write(`memory came back ${times} times\n`);
}, 100).unref();
