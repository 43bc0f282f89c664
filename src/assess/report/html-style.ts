/** The style of the page: light and dark, narrow and wide, and on paper. */
export const STYLE = `
:root { color-scheme: light dark; --line: #8886; --soft: #8882; --bad: #b3261e; --good: #1e6b25; --warn: #8a5300; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --good: #81c784; --warn: #ffb74d; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; border-bottom: 2px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; } h4 { font-size: .95rem; margin: 1rem 0 .25rem; }
p { margin: .4rem 0; }
.score { font-size: 2.6rem; font-weight: 700; line-height: 1; }
nav a { margin-right: .9rem; white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .8rem 0; }
dt { opacity: .75; } dd { margin: 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .5rem; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } td.number, th.number { text-align: right; white-space: nowrap; }
th, .categories td:first-child { overflow-wrap: normal; }
meter { width: 6rem; max-width: 25vw; vertical-align: middle; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .8rem; margin: .4rem 0; padding: .4rem .6rem;
  background: var(--soft); border-radius: .3rem; max-height: 16rem; overflow-y: auto; }
summary { cursor: pointer; }
.fail { color: var(--bad); font-weight: 600; } .pass { color: var(--good); } .skip, .unobservable { opacity: .75; }
.P0 { color: var(--bad); } .P1 { color: var(--warn); }
section.gap { border-top: 1px solid var(--line); padding: .5rem 0; }
.matrix td:nth-child(1), .matrix td:nth-child(2), .matrix td:nth-child(3) { white-space: nowrap; }
ul.methods { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem .9rem; }
@media (max-width: 40rem) {
  .matrix thead { display: none; }
  .matrix, .matrix tbody { display: block; }
  .matrix tr { display: grid; grid-template-columns: max-content max-content 1fr; border-bottom: 1px solid var(--line); padding: .3rem 0; }
  .matrix td { border: 0; padding: .05rem .6rem .05rem 0; }
  .matrix td:nth-child(4) { grid-column: 1 / -1; }
  .categories th, .categories td { padding: .3rem 0 .3rem .5rem; }
  .categories th:first-child, .categories td:first-child { padding-left: 0; }
  dl { grid-template-columns: 1fr; } dt { margin-top: .3rem; }
}
@media print {
  :root { color-scheme: light; }
  html { font-size: 11px; } body { font-size: 1rem; max-width: none; padding: 0; } nav { display: none; } a { color: inherit; }
  pre { max-height: none; overflow: visible; background: none; border-left: 2px solid var(--line); font-size: 9px; }
  tr, h2, h3, h4, section.gap > p { break-inside: avoid; } h2, h3, h4 { break-after: avoid; } thead { display: table-header-group; }
}
`;
