"""One page of all benchmarks that have been run: a plot and a table for each build/bench/NAME.json.

Plots are SVG inside the page, which needs no other file and no network.
"""

import html
import importlib
import json
import math

from common import NAMES, WORK, spread

WIDTH, HEIGHT = 860, 320
LEFT, RIGHT, TOP, BOTTOM = 90, 190, 14, 44
LETTER = 7.2  # of the widest fonts that a browser may take for a plot's text
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")  # of Okabe and Ito
STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; font-size: 13px; margin: 1em 0 }
td, th { padding: .2em .7em; border-bottom: 1px solid #ddd; text-align: right; white-space: pre }
td:first-child, th:first-child { text-align: left }
pre { font-size: 12px; color: #555; white-space: pre-wrap }
svg text { font: 12px sans-serif }
"""


def text(x, y, words, anchor="middle", colour="#222"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">'
            f"{html.escape(str(words))}</text>")


def line(x1, y1, x2, y2, colour="#ddd", width=1):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"/>')


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ends(result):
    """Least and most of the turns; of a single one it itself."""
    ours = result["turns"][0] or [result["ours"]]
    return min(ours), max(ours)


def lines(results):
    """Series over x, on logarithmic axes: medians, with a bar from the least to the most."""
    points = [(r["series"], r["x"], r["ours"], *ends(r)) for r in results]
    points += [("floor", r["x"], r["floor"], r["floor"], r["floor"]) for r in results]
    xs = sorted({x for _, x, *_ in points})
    low, high = min(p[3] for p in points) / 1.2, max(p[4] for p in points) * 1.2
    span = math.log(xs[-1] / xs[0]) or 1

    def at(x, y):
        return (LEFT + (WIDTH - LEFT - RIGHT) * math.log(x / xs[0]) / span,
                TOP + (HEIGHT - TOP - BOTTOM) * math.log(high / y) / math.log(high / low))

    out = []
    for x in xs:
        out += [line(at(x, low)[0], TOP, at(x, low)[0], HEIGHT - BOTTOM),
                text(at(x, low)[0], HEIGHT - BOTTOM + 18, number(x))]
    for tick in (m * 10**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
                 for m in (1, 2, 5)):
        if low <= tick <= high:
            out += [line(LEFT, at(xs[0], tick)[1], WIDTH - RIGHT, at(xs[0], tick)[1]),
                    text(LEFT - 8, at(xs[0], tick)[1] + 4, number(tick), "end")]
    for i, name in enumerate(dict.fromkeys(p[0] for p in points)):
        colour = "#999" if name == "floor" else COLOURS[i % len(COLOURS)]
        mine = {p[1]: p for p in points if p[0] == name}
        path = [at(x, mine[x][2]) for x in sorted(mine)]
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="'
                   + " ".join(f"{x:.1f},{y:.1f}" for x, y in path) + '"/>')
        for _, x, _, least, most in mine.values():
            out.append(line(*at(x, least), *at(x, most), colour, 4))
        out.append(text(WIDTH - RIGHT + 12, TOP + 16 + 18 * i, name, "start", colour))
    out.append(text(LEFT, HEIGHT - 4, results[0]["unit"], "start", "#555"))
    return WIDTH, HEIGHT, out


def bars(results):
    """The ratio to the floor of each line, from the least to the most of its turns."""
    rows = []
    for r in results:
        ours, floors = r["turns"]
        ratios = [a / b for a, b in zip(ours, floors)] or [r["ratio"]]
        rows.append((r["name"].strip(), min(ratios), r["ratio"], max(ratios)))
    left, most = LETTER * max(len(row[0]) for row in rows) + 20, max(max(row[1:]) for row in rows) * 1.1
    width = max(WIDTH, left + 400)
    height = TOP + 24 * len(rows) + BOTTOM

    def at(ratio):
        return left + (width - left - 60) * ratio / most

    out = [line(at(1), TOP, at(1), height - BOTTOM, "#D55E00", 2),
           text(at(1), height - BOTTOM + 16, "the floor", colour="#D55E00")]
    for i, (name, least, ratio, top) in enumerate(rows):
        y = TOP + 24 * i
        out += [text(left - 8, y + 16, name, "end"),
                f'<rect x="{left:.1f}" y="{y + 6}" width="{at(ratio) - left:.1f}" height="12" '
                f'fill="#0072B2" fill-opacity=".55"/>',
                line(at(least), y + 12, at(top), y + 12, "#222", 2),
                text(max(at(top), at(ratio)) + 6, y + 16, f"{ratio:.2f}", "start")]
    return width, height, out


def table(results):
    heads = ("", "ours", "floor", "ratio", "unit", "ms of processor time: ours", "floor")
    rows = ["<tr>" + "".join(f"<th>{html.escape(head)}</th>" for head in heads) + "</tr>"]
    for r in results:
        ours, floors = ([*side] or [r[key]] for side, key in zip(r["turns"], ("ours", "floor")))
        ratios = [a / b for a, b in zip(ours, floors)] if r["turns"][0] else [r["ratio"]]
        cpu = [f"{value:.3f}" for value in r["cpu_ms"]] + ["", ""]
        cells = (r["name"], spread(ours), spread(floors), spread(ratios), r["unit"], *cpu[:2])
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    return "<table>" + "\n".join(rows) + "</table>"


def section(name, results):
    width, height, plot = lines(results) if all(r.get("x") for r in results) else bars(results)
    about, _, rest = (importlib.import_module(name).__doc__ or "").partition("\n")
    return (f'<h2 id="{name}">{name}</h2>\n<p>{html.escape(about)}</p>\n'
            f'<svg width="{width:.0f}" height="{height}" role="img">{"".join(plot)}</svg>\n'
            f"{table(results)}\n<pre>{html.escape(rest.strip())}</pre>\n")


def write(path):
    """Writes the page of what build/bench has; returns the names of the benchmarks in it."""
    found = [name for name in NAMES if (WORK / f"{name}.json").exists()]
    sections = [section(name, json.loads((WORK / f"{name}.json").read_text())) for name in found]
    links = " · ".join(f'<a href="#{name}">{name}</a>' for name in found)
    with open(path, "w", encoding="utf-8") as out:
        out.write(f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Millrace: '
                  f"benchmarks</title>\n<style>{STYLE}</style>\n<h1>Millrace: benchmarks</h1>\n"
                  f"<p>Both sides are measured in turns in the same run; figures are least, median "
                  f"and most of the turns. Bars: ours against the floor.</p>\n<p>{links}</p>\n"
                  + "".join(sections) + "</html>\n")
    return found
