"""How a report looks: light, dark, on a phone and on paper. Contrasts are 4.5 to 1 for text, 3 to 1 for lines."""

CSS = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1c2128; --muted: #57606a; --rule: #d0d7de; --card: #f6f8fa; --link: #0a5a9c;
  --shade: rgb(0 0 0 / .28);
  --s0: #0068a6; --s1: #b05500; --s2: #00785a; --s3: #9c3f78;
  --s4: #5b5bd6; --s5: #b3261e; --s6: #6b6100; --s7: #444c56;
  --s8: #00747f; --s9: #8a3ffc; --s10: #7a4a2b; --s11: #c2185b;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #14181d; --ink: #e6e9ed; --muted: #a5aeb9; --rule: #39424d; --card: #1d232a; --link: #7cc0ff;
    --shade: rgb(255 255 255 / .35);
    --s0: #5ab4f0; --s1: #f2a93b; --s2: #3cc79a; --s3: #e892c2;
    --s4: #a9a9ff; --s5: #ff8f85; --s6: #d8cb5a; --s7: #c2cad3;
    --s8: #4dd0d8; --s9: #c9a0ff; --s10: #d9a679; --s11: #ff80ab;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
main { max-width: 52rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.4rem 0 .6rem; }
h2 { padding-top: .8rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1.02rem; margin: 1.4rem 0 .4rem; }
p, ul, ol { margin: .5rem 0; }
ul, ol { padding-left: 1.3rem; }
li { margin: .3rem 0; }
a { color: var(--link); }
h1, h2, h3, p, li, figcaption { overflow-wrap: anywhere; }
td, th { overflow-wrap: anywhere; min-width: 4.6rem; }
td:not(.number) { min-width: 4.9rem; }
.lead { color: var(--muted); font-size: 1.05rem; }
.muted, caption, figcaption { color: var(--muted); font-size: .9rem; }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: .5rem; }
.card { padding: .6rem 1rem; margin: 1rem 0; }
.tiles { display: grid; grid-template-columns: 1fr 1fr; gap: .8rem; margin: 1rem 0; }
.tile { margin: 0; min-width: 0; }
.tile h3 { margin: .2rem 0; color: var(--muted); font-size: .95rem; }
.tile .answer { font-size: 1.25rem; font-weight: 600; line-height: 1.3; margin: .2rem 0 .4rem; }
.tile p { font-size: .92rem; }
.wide-tile { grid-column: 1 / -1; }
details { margin-top: 2rem; border: 1px solid var(--rule); border-radius: .5rem; padding: 0 1rem; }
summary { cursor: pointer; font-weight: 600; padding: .8rem 0; }
.warning { border-left: .35rem solid var(--s5); padding-left: .7rem; }
.scroll { overflow-x: auto; margin: .8rem 0 .2rem; --ground: var(--paper); }
.scroll {
  background:
    linear-gradient(to right, var(--ground) 2rem, transparent) local,
    linear-gradient(to left, var(--ground) 2rem, transparent) local,
    linear-gradient(to right, var(--shade), transparent 1rem),
    linear-gradient(to left, var(--shade), transparent 1rem), var(--ground);
}
.tile .scroll, .card .scroll { --ground: var(--card); }
button {
  font: inherit; font-size: .8rem; color: var(--muted); background: none; border: 1px solid var(--rule);
  border-radius: .3rem; padding: 0 .5rem; margin-bottom: .8rem; cursor: pointer;
}
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
caption { text-align: left; padding: .2rem 0 .4rem; }
caption > span { display: inline-block; position: sticky; left: 0; max-width: min(50rem, 100vw - 5rem); }
th, td { text-align: left; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
thead th { overflow-wrap: normal; border-bottom: 2px solid var(--rule); font-weight: 600; }
tbody th { font-weight: 600; min-width: 7.4rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; overflow-wrap: normal; }
tr.marked > * { background: var(--card); }
figure { margin: 1rem 0; }
svg { display: block; width: 100%; height: auto; }
svg.narrow, p.narrow { display: none; }
svg text { fill: var(--ink); font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
svg .axis { stroke: var(--muted); stroke-width: 1; fill: none; }
svg .grid { stroke: var(--rule); stroke-width: 1; fill: none; }
svg .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
svg .reference { stroke: var(--muted); stroke-width: 1.5; stroke-dasharray: 2 4; fill: none; }
svg .mark { cursor: pointer; }
svg .mark:focus { outline: none; }
svg .mark:focus :is(circle, rect) { stroke: var(--ink); stroke-width: 2.5; }
svg .tip {
  display: none; font-weight: 600; stroke: var(--paper); stroke-width: 6; stroke-linejoin: round; paint-order: stroke;
  pointer-events: none;
}
svg .mark:is(:hover, :focus) .tip { display: block; }
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; font-size: .9rem; }
.legend svg { display: inline-block; width: 2rem; height: .8rem; vertical-align: middle; margin-right: .4rem; }
pre {
  background: var(--card); border: 1px solid var(--rule); border-radius: .4rem; padding: .7rem .9rem;
  overflow-x: auto; white-space: pre-wrap; font-size: .85rem; line-height: 1.45;
}
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace; }
footer { margin-top: 2.5rem; color: var(--muted); font-size: .9rem; }
@media (max-width: 34rem) {
  main { padding-top: 1rem; }
  h1 { font-size: 1.4rem; }
  .tiles { grid-template-columns: 1fr; }
  .tile td.number { min-width: 0; }
  .tile td:not(.number) { min-width: 3.3rem; }
  .tile tbody th { min-width: 6rem; }
  th, td { min-width: 3rem; padding-right: .5rem; }
  td:not(.number) { min-width: 4rem; }
  tbody th { min-width: 5rem; }
  .stacked thead { display: none; }
  .stacked, .stacked :is(caption, tbody, tr, th, td) { display: block; text-align: left; min-width: 0; }
  .stacked tr { border-bottom: 1px solid var(--rule); padding: .3rem 0; }
  .stacked :is(th, td) { border: 0; padding: .1rem 0; }
  .stacked td:empty { display: none; }
  .stacked td::before { content: attr(data-label) ": "; color: var(--muted); }
  .tile thead th { min-width: 0; }
  .scroll tbody th { position: sticky; left: 0; background: var(--ground); }
  .stacked td.number { white-space: normal; }
  details { border-width: 1px 0; border-radius: 0; padding: 0; }
  svg.wide { display: none; }
  svg.narrow, p.narrow { display: block; }
}
@media print {
  :root { color-scheme: light; }
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  .scroll { overflow: visible; background: none; }
  button { display: none; }
  details::details-content { content-visibility: visible; block-size: auto; }
  h2, h3 { break-after: avoid; }
  figure, tr, .card { break-inside: avoid; }
}
"""

SERIES = 12
"""How many colours there are."""

DASHES = ("none", "7 4", "2 3", "9 3 2 3")
"""Lines also differ by their dashes: colour alone must not carry the meaning."""
