"""The report as pages: Markdown, and HTML that needs no other file. Pure: pictures come as bytes."""

import base64
import html

import blocks
import spread

STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; font-size: 13px; margin: 1em 0 }
td, th { padding: .2em .7em; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top }
td { white-space: nowrap }
.text { text-align: left; white-space: normal }
.caption { font-size: 13px; color: #555; max-width: 60em }
figure { margin: 1em 0 }
img { max-width: 100% }
h2 { border-top: 1px solid #ccc; padding-top: 1em; margin-top: 2em }
"""


def cell(value, column):
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return spread.text(value, column.places)
    return spread.number(value, column.places)


def is_left(table, i):
    return i == 0 or table.columns[i].is_text


def anchor(title):
    return "".join(letter if letter.isalnum() else "-" for letter in title.lower())


# ---- Markdown ----


def md_table(table):
    yield f"**{table.title}**"
    yield ""
    yield "| " + " | ".join(column.title for column in table.columns) + " |"
    yield "|" + "".join(" --- |" if is_left(table, i) else " ---: |" for i in range(len(table.columns)))
    for row in table.rows:
        cells = [cell(value, column).replace("|", "\\|") for value, column in zip(row, table.columns)]
        yield "| " + " | ".join(cells) + " |"
    if table.caption:
        yield ""
        yield table.caption


def md_block(block, drawn):
    if isinstance(block, blocks.Paragraph):
        yield block.text
    elif isinstance(block, blocks.Table):
        yield from md_table(block)
    elif block.name in drawn:
        yield f"![{block.title}](plots/{block.name}.png)"
        yield ""
        yield f"*{block.title}.* {block.caption}"
    else:
        yield f"*{block.title}*: not drawn."


def markdown(title, about, sections, drawn):
    """`sections`: (title, blocks); `drawn`: the names of the plots that have a picture."""
    lines = [f"# {title}", "", *sum(([paragraph, ""] for paragraph in about), [])]
    for name, its_blocks in sections:
        lines += [f"## {name}", ""]
        for block in its_blocks:
            lines += [*md_block(block, drawn), ""]
    return "\n".join(lines)


# ---- HTML ----


def html_table(table):
    yield f"<h4>{html.escape(table.title)}</h4>"
    kinds = [' class="text"' if is_left(table, i) else "" for i in range(len(table.columns))]
    heads = (f"<th{kind}>{html.escape(column.title)}</th>" for kind, column in zip(kinds, table.columns))
    yield f"<table><tr>{''.join(heads)}</tr>"
    for row in table.rows:
        cells = (f"<td{kind}>{html.escape(cell(value, column))}</td>"
                 for kind, value, column in zip(kinds, row, table.columns))
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table>"
    if table.caption:
        yield f'<p class="caption">{html.escape(table.caption)}</p>'


def html_block(block, pictures):
    if isinstance(block, blocks.Paragraph):
        yield f"<p>{html.escape(block.text)}</p>"
    elif isinstance(block, blocks.Table):
        yield from html_table(block)
    elif block.name in pictures:
        data = base64.b64encode(pictures[block.name]).decode("ascii")
        title = html.escape(block.title)
        yield f'<figure><img alt="{title}" src="data:image/png;base64,{data}">'
        yield f'<figcaption class="caption"><b>{title}.</b> {html.escape(block.caption)}</figcaption></figure>'
    else:
        yield f"<p>{html.escape(block.title)}: not drawn.</p>"


def as_html(title, about, sections, pictures):
    """`pictures`: the PNG of each plot by its name."""
    links = " · ".join(f'<a href="#{anchor(name)}">{html.escape(name)}</a>' for name, _ in sections)
    lines = ['<!doctype html>', f'<html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>',
             f"<style>{STYLE}</style>", f"<h1>{html.escape(title)}</h1>",
             *(f"<p>{html.escape(paragraph)}</p>" for paragraph in about), f"<p>{links}</p>"]
    for name, its_blocks in sections:
        lines.append(f'<h2 id="{anchor(name)}">{html.escape(name)}</h2>')
        for block in its_blocks:
            lines += html_block(block, pictures)
    return "\n".join([*lines, "</html>", ""])
