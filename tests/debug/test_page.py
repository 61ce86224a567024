"""The HTML report of debug.explain."""

import html.parser
import shutil
import subprocess

import numpy as np
import pytest

from functrans import debug, value_and_grad

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)


def loss(w, x):
    h = np.tanh(x @ w)
    s = np.sort(h, axis=0)
    return np.sum(h * s)


@pytest.fixture(scope="module")
def report():
    return debug.explain(value_and_grad(loss))(np.ones((8, 4)), np.ones((3000, 8)))


class Rows(html.parser.HTMLParser):
    """The rows of the tables: what they are linked by, and their cells."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.open = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "i"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append(((dict(attributes).get("data-lines") or "").split(), []))
        elif tag in ("td", "th"):
            self.rows[-1][1].append("")

    def handle_endtag(self, tag):
        if tag not in ("meta", "i"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["td"]:
            self.rows[-1][1][-1] += data


def test_all_that_is_of_one_line_is_linked(report, tmp_path):
    path = tmp_path / "report.html"
    report.save(path)
    rows = Rows(path.read_text(encoding="utf-8")).rows
    [line] = [one for one in report.lines if one.source.text == "s = np.sort(h, axis=0)"]
    place = f"test_page.py:{line.source.line}"
    linked = [" ".join(cells) for lines, cells in rows if place in lines]
    for text in ("s = np.sort(h, axis=0)", " argsort, line", " = sort[axis=0]", "i64[3000,4]"):
        assert any(text in row for row in linked), text
    # kernels compute several lines
    others = [row for row in linked if "compiled" not in row and ", line" not in row]
    assert not any("tanh" in row for row in others)


def test_a_page_needs_nothing_else_and_shows_what_it_is_given(report):
    text = report._repr_html_()
    for outside in ("http", "src=", "@import", "url("):
        assert outside not in text
    strange = debug.explain(lambda x: x["<b>&"] * 2.0)({"<b>&": np.ones(3)})._repr_html_()
    assert "<b>" not in strange
    assert "&lt;b&gt;&amp;" in strange


@pytest.mark.skipif(not BROWSER, reason="needs Chromium")
def test_hovering_marks_what_is_linked(report, tmp_path):
    path = tmp_path / "report.html"
    report.save(path)
    [line] = [one for one in report.lines if one.source.text == "h = np.tanh(x @ w)"]
    hover = f"""<script>
      document.querySelector('tr[data-lines="test_page.py:{line.source.line}"]')
        .dispatchEvent(new MouseEvent("mouseenter"));
      document.title = [...document.querySelectorAll("tr.hot")].map(x => x.innerText).join("|");
    </script>"""
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", hover + "</body>"), "utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", str(path)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    title = found.partition("<title>")[2].partition("</title>")[0]
    assert "h = np.tanh(x @ w)" in title
    assert " = tanh " in title
    assert " = sort[" not in title
