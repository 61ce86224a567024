"""Reports as pages: the source on one side, the program on the other, linked by hovering."""

from __future__ import annotations

import linecache
from collections import defaultdict
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from functrans.debug.words import size, time
from functrans.ir.text import graph_text

if TYPE_CHECKING:
    from functrans.debug.explanation import Explanation
    from functrans.debug.lines import Line
    from functrans.trace.source import Source

AROUND = 2
"""Lines of a file that are shown around those that compute something."""

_STYLE = """
.functrans { --ink: #1a1d21; --dim: #667; --paper: #fff; --edge: #d8dce2; --mark: #fff3c4;
  --forward: #3b7dd8; --backward: #e08a3c; color: var(--ink); background: var(--paper);
  font: 14px/1.45 system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { .functrans { --ink: #e4e7eb; --dim: #98a2b0;
  --paper: #16181c; --edge: #333941; --mark: #4a4217; --forward: #5b9bf0; --backward: #f0a35b; } }
.functrans h1 { font-size: 1.3em; margin: 0 0 .3em; }
.functrans h2 { font-size: 1em; margin: 1.2em 0 .4em; }
.functrans p { margin: .1em 0; color: var(--dim); }
.functrans .sides { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr);
  gap: 1.5em; align-items: start; }
@media (max-width: 900px) { .functrans .sides { grid-template-columns: minmax(0, 1fr); } }
.functrans .scroll { overflow-x: auto; border: 1px solid var(--edge); border-radius: 6px; }
.functrans table { border-collapse: collapse; width: 100%; margin: 0; }
.functrans td, .functrans th { padding: 1px 8px; text-align: right; white-space: nowrap;
  border: 0; background: none; color: inherit; }
.functrans th { color: var(--dim); font-weight: normal; }
.functrans td.text, .functrans th.text { text-align: left; white-space: pre;
  font: 12px/1.5 ui-monospace, monospace; }
.functrans td.wrapped { white-space: normal; min-width: 20em; }
.functrans .sides > div:first-child { position: sticky; top: 0; max-height: 100vh;
  overflow-y: auto; }
@media (max-width: 900px) { .functrans .sides > div:first-child { position: static; } }
.functrans td.bar { width: 90px; min-width: 90px; padding: 1px 0; }
.functrans .bar div { display: flex; height: .8em; }
.functrans .bar i { display: block; background: var(--forward); }
.functrans .bar i + i { background: var(--backward); }
.functrans tr.hot { background: var(--mark); }
.functrans tr[data-lines] { cursor: default; }
.functrans details summary { cursor: pointer; font-weight: 600; margin: 1em 0 .4em; }
.functrans .key i { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em; }
"""

_SCRIPT = """
for (const page of document.querySelectorAll(".functrans:not([data-linked])")) {
  page.dataset.linked = "";
  const rows = [...page.querySelectorAll("tr[data-lines]")];
  const of = row => row.dataset.lines.split(" ");
  const mark = row => { const own = row ? of(row) : [];
    for (const each of rows) each.classList.toggle("hot", of(each).some(x => own.includes(x))); };
  for (const row of rows) {
    row.addEventListener("mouseenter", () => mark(row));
    row.addEventListener("mouseleave", () => mark(null)); }
}
"""


def page(report: Explanation) -> str:
    """A report as a self-contained page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(report.name)}</title>"
        "<style>html { color-scheme: light dark; } body { margin: 0; }"
        ".functrans { min-height: 100vh; padding: 1.5em; box-sizing: border-box; }</style></head>"
        f"<body>{fragment(report)}</body></html>\n"
    )


def fragment(report: Explanation) -> str:
    """A report as a part of a page, such as a notebook."""
    head, *rest = report.head()
    return (
        f'<style>{_STYLE}</style><div class="functrans"><h1>{escape(head)}</h1>'
        + "".join(f"<p>{escape(line)}</p>" for line in rest)
        + '<p class="key"><i style="background: var(--forward)"></i>forward'
        '<i style="background: var(--backward)"></i>backward</p>'
        f'<div class="sides"><div>{"".join(_files(report))}</div>'
        f"<div>{_parts(report)}{_kernels(report)}{_kept(report)}{_graph(report)}{_loops(report)}"
        f"{_code(report)}</div></div></div>"
        f"<script>{_SCRIPT}</script>"
    )


def place(source: Source) -> str:
    """The key that rows of one line share."""
    return f"{Path(source.code.co_filename).name}:{source.line}".replace(" ", "_")


def _table(head: Iterable[str], rows: Iterable[str]) -> str:
    cells = "".join(f"<th{_class(name)}>{escape(name)}</th>" for name in head)
    return f'<div class="scroll"><table><tr>{cells}</tr>{"".join(rows)}</table></div>'


def _class(name: str) -> str:
    return ' class="text"' if name in ("line", "operation", "what") else ""


def _row(lines: Iterable[str], *cells: str) -> str:
    linked = f' data-lines="{escape(" ".join(lines), quote=True)}"' if lines else ""
    return f"<tr{linked}>{''.join(cells)}</tr>"


def _text(text: str, kind: str = "text") -> str:
    return f'<td class="{kind}">{escape(text)}</td>'


def _number(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def _files(report: Explanation) -> Iterator[str]:
    """The source, with the work of each line."""
    files: dict[str, dict[int, Line]] = defaultdict(dict)
    for line in report.lines:
        if line.source is not None:
            files[line.source.code.co_filename][line.source.line] = line
    longest = max((line.seconds for line in report.lines), default=0.0) or 1.0
    for file, lines in files.items():
        rows = []
        for number in range(max(min(lines) - AROUND, 1), max(lines) + AROUND + 1):
            text = linecache.getline(file, number).rstrip("\n")
            bar, cells, linked = "", [""] * 4, ""
            if (found := lines.get(number)) is not None and found.source is not None:
                works = found.forward, found.backward
                widths = [100 * work.seconds / longest for work in works]
                bar = "".join(f'<i style="width: {width:.1f}%"></i>' for width in widths)
                cells = [*works[0].plus(works[1]).words, report.alive(found)]
                linked = place(found.source)
            bars = f'<td class="bar"><div>{bar}</div></td>'
            first, *others = map(_number, cells)
            cells = [_number(str(number)), bars, first, _text(text), *others]
            rows.append(_row(linked.split(), *cells))
        yield f"<h2>{escape(Path(file).name)}</h2>"
        yield _table(["", "", "time", "line", "flops", "bytes", "alive"], rows)


def _parts(report: Explanation) -> str:
    rows = [
        _row(map(place, part.lines), _number(seconds), _text(text, "text wrapped"))
        for part, (seconds, text) in zip(report.parts, report.described(), strict=True)
    ]
    return _section("The compiled program", ["time", "what"], rows)


def _kernels(report: Explanation) -> str:
    rows = [
        _row(
            map(place, row.sources),
            _number(time(row.seconds)),
            _number(str(row.calls)),
            _text(row.what, "text wrapped"),
        )
        for row in report.kernels
    ]
    return _section("Its kernels", ["time", "calls", "what"], rows)


def _kept(report: Explanation) -> str:
    rows = [
        _row(
            (place(one.source),) if one.source else (),
            _number(size(one.nbytes)),
            _text(f"{one.type}  {one.source.text if one.source else ''}"),
        )
        for one in report.kept
    ]
    return _section("Kept for the backward pass", ["bytes", "what"], rows)


def _section(title: str, head: Iterable[str], rows: list[str]) -> str:
    return f"<h2>{title}</h2>{_table(head, rows)}" if rows else ""


def _graph(report: Explanation) -> str:
    rows = []
    for line in graph_text(report.graph, sources=True).split("\n"):
        text, mark, comment = line.partition("    # ")
        rows.append(_row((comment.split(" (")[0].replace(" ", "_"),) if mark else (), _text(text)))
    return _folded("Operations, as they were traced", "operation", rows, " open")


def _loops(report: Explanation) -> str:
    rows = [
        _row(map(place, part.lines), _text(line))
        for part in report.parts
        for line in part.loops.split("\n")
        if line
    ]
    return _folded("Loops", "what", rows)


def _code(report: Explanation) -> str:
    rows = [_row((), _text(line)) for line in report.source.split("\n")]
    return _folded("Generated kernels", "what", rows)


def _folded(title: str, head: str, rows: list[str], state: str = "") -> str:
    table = _table([head], rows)
    return f"<details{state}><summary>{title}</summary>{table}</details>" if rows else ""
