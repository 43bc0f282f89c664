/** The style sheet of the login and consent pages. It loads nothing. */
export const STYLE = `:root { color-scheme: light dark; --text: #1b1f24; --muted: #57606a; --page: #f6f8fa; --card: #fff;
  --line: #d0d7de; --strong: #0b57d0; --on-strong: #fff; --warn: #fff4ce; --warn-text: #4d3800; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --muted: #9da7b1; --page: #0d1117; --card: #161b22; --line: #3d444d; --strong: #a8c7fa;
    --on-strong: #062e6f; --warn: #3a2f0b; --warn-text: #f5e3a8; --bad: #ff9d96; }
}
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: flex; flex-direction: column; align-items: center; justify-content: center;
  padding: 1rem; background: var(--page); color: var(--text);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { width: 100%; max-width: 26rem; padding: 1.5rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .75rem; }
h1 { margin: 0 0 .5rem; font-size: 1.375rem; line-height: 1.25; }
p, ul, dl { margin: 0 0 1rem; }
ul { padding-left: 1.25rem; }
dt { color: var(--muted); font-size: .875rem; }
dd { margin: 0 0 .5rem; overflow-wrap: anywhere; font-weight: 600; }
strong, code { overflow-wrap: anywhere; }
label { display: block; margin: 0 0 .25rem; font-weight: 600; }
input { width: 100%; margin: 0 0 1rem; padding: .625rem .75rem; font: inherit; color: inherit; background: var(--card);
  border: 1px solid var(--muted); border-radius: .5rem; }
button { width: 100%; min-height: 2.75rem; margin: 0 0 .5rem; padding: .5rem 1rem; font: inherit; font-weight: 600;
  color: var(--on-strong); background: var(--strong); border: 1px solid var(--strong); border-radius: .5rem;
  cursor: pointer; }
button.second { color: var(--text); background: transparent; border-color: var(--muted); }
button.link { width: auto; min-height: 0; margin: 0; padding: .25rem 0; color: var(--strong); background: none;
  border: 0; font-weight: 400; text-decoration: underline; }
:focus-visible { outline: 3px solid var(--strong); outline-offset: 2px; }
.note { padding: .75rem; border-radius: .5rem; background: var(--warn); color: var(--warn-text); }
.error { padding: .75rem; border-radius: .5rem; border: 2px solid var(--bad); }
.muted { color: var(--muted); font-size: .875rem; }
.or { display: flex; align-items: center; gap: .75rem; margin: .5rem 0 1rem; color: var(--muted); }
.or::before, .or::after { content: ""; flex: 1; border-top: 1px solid var(--line); }
`;
