#pragma once

#include <string_view>

namespace kvkeep::bench {

// The page's style sheet. Wide tables scroll in a frame of their own (.wide), so that the page never does.
inline constexpr std::string_view kHtmlStyle = R"css(
:root { color-scheme: light dark; --page: #ffffff; --card: #f6f8fa; --text: #1b1f24; --soft: #57606a; --line: #d0d7de;
  --behind: #b9cee6; --front: #2467b0; --fault: #c62828; --good: #1a7f37; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171b; --card: #1c2127; --text: #e3e7eb; --soft: #9aa4ae; --line: #353c44; --behind: #3a526f;
    --front: #79b0f0; --fault: #ff7068; --good: #57c26e; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 78rem; padding: 1.5rem 1rem 4rem; background: var(--page); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .25rem; }
p { margin: .25rem 0 .75rem; }
.soft, figcaption, summary { color: var(--soft); }
.soft, figcaption, summary, dd, dt { font-size: .9rem; }
th .soft, td .soft { font-size: .8rem; font-weight: 400; }
a { color: inherit; text-decoration-color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 1rem 0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
code { font: .85em ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.problems { border: 1px solid var(--fault); border-left-width: 5px; border-radius: 6px; padding: .5rem 1rem; margin: 1.25rem 0; }
.problems h2 { color: var(--fault); margin: .25rem 0; }
.problems li { overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; min-width: 40rem; }
th, td { padding: .3rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; }
thead th { color: var(--soft); }
.name { text-align: left; white-space: normal; min-width: 9rem; }
.error { display: block; max-width: 24rem; overflow-wrap: anywhere; font-size: .8rem; color: var(--fault); }
.bad { color: var(--fault); font-weight: 600; }
.good { color: var(--good); }
.bars { text-align: left; }
.entry { white-space: nowrap; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; margin: .5rem 0; }
figure { margin: 0; padding: .75rem .75rem .25rem; background: var(--card); border-radius: 6px; }
figcaption b { font-weight: 600; color: var(--text); }
svg { display: block; overflow: visible; }
.plot { width: 100%; height: auto; }
.plot text { font-size: 12px; fill: var(--soft); }
.bar { width: 130px; height: 14px; margin-top: .3rem; }
.behind { fill: var(--behind); } .front { fill: var(--front); } .excess { fill: var(--fault); }
.grid { stroke: var(--line); fill: none; }
.bound { stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 2 2; }
.dot { stroke: var(--front); stroke-width: 6; stroke-linecap: round; }
.fault { stroke: var(--fault); stroke-width: 2; fill: none; }
.key { display: inline-block; width: .75em; height: .75em; border-radius: 2px; margin: 0 .2em 0 .6em; }
.key.behind { background: var(--behind); } .key.front { background: var(--front); } .key.excess { background: var(--fault); }
details { margin: .25rem 0 1rem; }
summary { cursor: pointer; }
@media print { body { max-width: none; } figure { break-inside: avoid; } }
)css";

}  // namespace kvkeep::bench
