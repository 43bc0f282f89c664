import { stem } from './porter2.js';

/**
 * Words that people and descriptions of tools use for the same thing, one group per line. They are general English
 * words, not the words of a benchmark. Verbs that most tools have ("get", "find") are left out, because they would
 * match every tool.
 */
const GROUPS = `
create make add new insert generate build compose
delete remove erase clear drop cancel
update edit modify change alter adjust
send deliver transmit forward
calculate compute determine evaluate
convert transform exchange
buy purchase order
book reserve schedule appointment reservation
plan calendar event meeting schedule
reschedule move postpone
suggest recommend recommendation suggestion advice
weather temperature forecast rain sunny climate
price cost rate fee quote charge expensive cheap
picture image photo photograph
movie film cinema
song music track
car vehicle automobile
house home apartment property
job position career employment
company business firm corporation organization
doctor physician
medicine drug medication
money currency cash
stock share ticker equity
city town place location
area region zone
near nearby close around
directory folder
file document
website site webpage page url web
internet web online
todo task reminder remember
note memo
phone telephone call mobile
text message sms
mail email
summary summarize summarise abstract digest
translate translation language
compare comparison versus difference
analyze analysis analyse examine
check verify validate confirm
begin start launch run execute
stop end halt terminate
turn switch toggle
sum total addition plus
multiply product times multiplication
divide division quotient
subtract difference minus
average mean
history historical past
news headline article
recipe cook cooking dish meal food
restaurant eat dining cuisine
hotel accommodation stay lodging
flight fly plane airplane airline
train railway rail
taxi cab ride
trip travel journey tour vacation
route path direction navigation
distance far length
employee staff worker
account person profile
login authenticate authentication signin
repository repo
issue ticket bug
game match
team club
player athlete
score result point
law legal lawsuit court
tax taxation
loan mortgage credit
size dimension
speed velocity fast
error failure fault
chart graph plot diagram visualize visualization
database table sql
disk storage
memory ram
current now today latest present
population people inhabitant
book novel
animal pet species
`;

const related = new Map<string, readonly string[]>();
for (const line of GROUPS.trim().split('\n')) {
  const group = line.split(' ').map(stem);
  for (const term of group) {
    related.set(term, [...new Set([...(related.get(term) ?? []), ...group.filter((other) => other !== term)])]);
  }
}

/** The terms that mean nearly the same as a term. */
export const synonymsOf = (term: string): readonly string[] => related.get(term) ?? [];
