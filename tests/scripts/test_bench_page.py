#!/usr/bin/env python3
"""The page of scripts/bench --html in a real browser, from a file and without a network."""

import contextlib
import html.parser
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "driver"))

import common  # noqa: E402
import main  # noqa: E402
import page  # noqa: E402

BROWSER = shutil.which("chromium-headless-shell") or shutil.which("chromium")
PATIENCE_S = 300
# As long as the longest of the benchmarks'.
LONG_NAME = "CsvProducer, ServerApp, 2 WorkerApps, defaults, against Vowpal Wabbit"

# Run in the page behind its own content. What it finds is the text of an element at the end.
MEASURE = """<script>
addEventListener("load", async () => {
  const loaded = performance.getEntriesByType("resource").map(entry => entry.name).concat(
    [...document.querySelectorAll("link, img, iframe, object, script[src]")].map(each => each.outerHTML));
  const inside = (box, frame) => box.left >= frame.left - 1 && box.right <= frame.right + 1 &&
                                 box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
  const sections = {};
  for (const head of document.querySelectorAll("h2")) {
    const svg = head.nextElementSibling.nextElementSibling;
    const frame = svg.getBoundingClientRect();
    const shapes = [...svg.querySelectorAll("text, line, rect, polyline")];
    const image = new Image();
    image.src = "data:image/svg+xml," + encodeURIComponent(new XMLSerializer().serializeToString(svg));
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [frame.width, frame.height];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
    let coloured = 0;
    for (let i = 0; i < pixels.length; i += 4) {
      const [red, green, blue, opaque] = pixels.slice(i, i + 4);
      if (opaque > 0 && Math.max(red, green, blue) - Math.min(red, green, blue) > 40) ++coloured;
    }
    sections[head.innerText] = {
      table: [...svg.nextElementSibling.rows].map(row => [...row.cells].map(cell => cell.innerText)),
      outside: shapes.filter(shape => !inside(shape.getBoundingClientRect(), frame))
                     .map(shape => shape.textContent || shape.outerHTML),
      drawn: svg.querySelectorAll("rect, polyline").length, coloured,
      texts: [...svg.querySelectorAll("text")].map(text => text.textContent),
    };
  }
  const links = [...document.querySelectorAll("a")].filter(
    link => document.getElementById(decodeURIComponent(link.hash.slice(1)))).map(link => link.innerText);
  const found = document.createElement("pre");
  found.id = "found";
  found.innerText = JSON.stringify({loaded, links, sections, width: document.documentElement.scrollWidth});
  document.body.append(found);
});
</script>
"""


class Found(html.parser.HTMLParser):
    """The text of the element that MEASURE adds."""

    def __init__(self, dom):
        super().__init__()
        self.text, self.is_open = "", False
        self.feed(dom)

    def handle_starttag(self, tag, attrs):
        self.is_open = ("id", "found") in attrs

    def handle_endtag(self, tag):
        self.is_open = False

    def handle_data(self, data):
        self.text += data if self.is_open else ""


def result(name, place, **more):
    """Of figures that no other place has."""
    ours, floors = [place + 1.125, place + 2.125, place + 4.125], [place + 1.5] * 3
    return {"name": name, "ours": ours[1], "floor": floors[1], "ratio": ours[1] / floors[1], "unit": "rows/s",
            "turns": [ours, floors], "series": "", "x": None, "cpu_ms": [place + 0.25, place + 0.75], **more}


class BenchPage(unittest.TestCase):
    def setUp(self):
        self.assertTrue(BROWSER, "there is no browser: scripts/setup test installs one")
        folder = tempfile.TemporaryDirectory(prefix="millrace-page-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, figures):
        """The page of these, by name, as scripts/bench --html writes it."""
        for name, results in figures.items():
            (self.folder / f"{name}.json").write_text(json.dumps(results))
        path = self.folder / "page.html"
        with mock.patch.object(common, "WORK", self.folder), mock.patch.object(page, "WORK", self.folder), \
                mock.patch.object(sys, "argv", ["bench", "--html", str(path)]), \
                contextlib.redirect_stdout(io.StringIO()):  # fmt: skip
            main.main()
        return path

    def browse(self, path):
        """What the browser makes of it, and what it says in its console."""
        done = subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             f"--user-data-dir={self.folder / 'browser'}", "--host-resolver-rules=MAP * ~NOTFOUND",
             "--enable-logging=stderr", "--window-size=1280,1024", "--virtual-time-budget=60000",
             "--dump-dom", path.as_uri()],
            check=True, capture_output=True, text=True, timeout=PATIENCE_S)  # fmt: skip
        console = re.findall(r"CONSOLE[:(].*", done.stderr)
        return done.stdout, console

    def measured(self, path):
        path.write_text(path.read_text().replace("</html>", MEASURE + "</html>"))
        dom, console = self.browse(path)
        self.assertEqual(console, [])
        return json.loads(Found(dom).text)

    def test_has_the_figures_and_a_plot_of_every_benchmark(self):
        figures = {name: [result(f"{name}, first", 10 * i), result(LONG_NAME, 10 * i + 5)]
                   for i, name in enumerate(common.NAMES)}  # fmt: skip
        figures["scaling"] = [result(f"{series}, {x} workers", 1000 + 10 * x, series=series, x=x)
                              for series in ("sequential", "eventual") for x in (1, 4, 64)]  # fmt: skip
        # A single turn, whose processor time was not measured, and one far from its floor.
        figures["memory"] = [{**result("ServerApp", 3000), "turns": [[], []], "cpu_ms": []}]
        figures["latency"] = [result("p50", 0.5, ratio=.001), result("p99", 4000, ratio=900.)]
        found = self.measured(self.write(figures))
        self.assertEqual(found["links"], list(common.NAMES))
        self.assertEqual(list(found["sections"]), list(common.NAMES))
        self.assertEqual(found["loaded"], [], "it needs no other file")
        for name, section in found["sections"].items():
            with self.subTest(name):
                heads, *rows = section["table"]
                self.assertEqual(heads[:4], ["", "ours", "floor", "ratio"])
                self.assertEqual([row[0].strip() for row in rows], [r["name"] for r in figures[name]])
                for row, r in zip(rows, figures[name]):
                    for text, values in ((row[1], r["turns"][0] or [r["ours"]]),
                                         (row[2], r["turns"][1] or [r["floor"]])):  # fmt: skip
                        said = [float(part.replace(",", "")) for part in text.split("/")]
                        self.assertEqual(len(said), 3, text)
                        for one, value in zip(said, (min(values), sorted(values)[len(values) // 2], max(values))):
                            self.assertAlmostEqual(one, value, delta=.51 if value > 999 else .051)
                    self.assertEqual(row[5:], [f"{ms:.3f}" for ms in r["cpu_ms"]] or ["", ""])
                self.assertGreater(section["coloured"], 1000, "more than a line at the floor")
                self.assertEqual(section["outside"], [], "nothing is cut off")
                if name == "scaling":
                    self.assertEqual(section["drawn"], 3, "two series and the floor")
                    self.assertLessEqual({"sequential", "eventual", "floor", "1", "4", "64"},
                                         set(section["texts"]))  # fmt: skip
                else:
                    self.assertEqual(section["drawn"], len(figures[name]))
                    self.assertLessEqual({r["name"] for r in figures[name]}, set(section["texts"]))

    def test_says_what_stands_in_a_name_as_it_is(self):
        found = self.measured(self.write({"micro": [result("<b>1 & 2</b>", 1)]}))
        self.assertEqual(found["sections"]["micro"]["table"][1][0], "<b>1 & 2</b>")
        self.assertIn("<b>1 & 2</b>", found["sections"]["micro"]["texts"])

    def test_an_error_of_a_page_and_a_file_that_it_needs_would_be_noticed(self):
        path = self.write({"micro": [result("one", 1)]})
        broken = "<script>nothing.at.all()</script><link rel='stylesheet' href='other.css'><img src='https://example.invalid/a.png'>"
        path.write_text(path.read_text().replace("</html>", broken + MEASURE + "</html>"))
        dom, console = self.browse(path)
        self.assertTrue(any("nothing is not defined" in line for line in console), console)
        self.assertEqual(len(json.loads(Found(dom).text)["loaded"]), 3, "a link, an image, and its request")


if __name__ == "__main__":
    unittest.main(verbosity=2)
