#!/usr/bin/env python3
"""Holds the pages (*.md) against the tree: what they name exists, and their links lead somewhere.

    pages_test.py

A name is checked where a reader would take it for one:
- a path (`tasks/checkpoint.cc`, scripts/bench), also with a line (`topics/frame.h:12`): it exists,
  and has that line; a file alone (`frame.h`) is the name of some file of the tree;
- a link leads to a file and, with #, to one of its headings;
- a type, function or field in code quotes (`ShardTask::Load`, `Weights.lost`) stands in the sources;
- a flag (`--replicas`) stands in the sources.
And ARCHITECTURE.md stays short, and its arrows are those of include_rules.py.
"""

import fnmatch
import functools
import os
import re
import unittest

import include_rules

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
MOST_WORDS = 1500  # of ARCHITECTURE.md

SKIPPED = {"build", "node_modules", "__pycache__"}
SOURCES = (".cc", ".h", ".proto", ".py", ".cmake", ".txt", ".sh", ".yaml", ".json")
SUFFIXES = "cc|h|proto|py|md|cmake|sh|yaml|textproto|svg|png|inc|pom.xml"
# What is not ours: names and flags of other projects, files that users write.
NOT_OURS = {"SynchronizeEmbedding", "--gtest_filter", "--data-binary",
            "--need-pod-manager", "--need-task-manager", "--need-training-service"}
PLACEHOLDER = re.compile(r"(^|/)(mine\b|[A-Z]+(/|$))")  # mine.csv, tests/FOLDER/

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)+/?|[\w*-]+/(?=[\s`*),.:]|$)|[\w.*-]+\.(?:%s)\b" % SUFFIXES)
# CamelCase with or without members (a type, and what belongs to it), or a call without arguments.
IDENTIFIER = re.compile(r"(?:[A-Z]\w*[a-z]\w*)(?:(?:::|\.)\w+)*|\w+\(\)")
FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]+")


@functools.cache
def files():
    """Every file of the tree, by its path from the root; what is built or hidden is left out."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in SKIPPED and not f.startswith(".")]
        relative = os.path.relpath(folder, ROOT)
        found += [os.path.normpath(os.path.join(relative, name)) for name in names]
    return sorted(found)


@functools.cache
def top_names():
    return {path.split("/")[0] for path in files()}


@functools.cache
def base_names():
    return {os.path.basename(path) for path in files()}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def pages():
    return [path for path in files() if path.endswith(".md")]


def is_script(path):
    return path.startswith("scripts/") and "." not in os.path.basename(path)


@functools.cache
def words_of_sources():
    text = "\n".join(read(path) for path in files()
                     if (path.endswith(SOURCES) or is_script(path))
                     and not path.startswith(("datasets/", "tests/architecture/")))
    return set(re.findall(r"\w+", text)), set(FLAG.findall(text)), text


def lines_of(text):
    """Line number and line, fenced and indented blocks too."""
    return enumerate(text.split("\n"), 1)


def check_path(named):
    """What is wrong with a path that a page names; None: nothing."""
    path, _, line = named.partition(":")
    path = path.rstrip("/.")
    top = path.split("/")[0]
    if "/" not in named:
        if top in base_names() or fnmatch.filter(base_names(), top):
            return None
        return f"no file is called {path}"
    if top not in top_names():
        return None  # somebody else's: a URL, a folder of the user's
    matches = fnmatch.filter(files(), path)
    if not matches and not os.path.isdir(os.path.join(ROOT, path)):
        return f"{path} does not exist"
    if line and int(line) > len(read(path).split("\n")):
        return f"{path} has no line {line}"
    return None


def wrong_paths(text):
    for number, line in lines_of(text):
        line = re.sub(r"https?://\S+", "", line)
        for match in PATH.finditer(line):
            before = line[:match.start()]
            if re.search(r"[\w$}>/.=-]$", before):
                continue  # the tail of a longer path: build/..., /etc/..., $PWD/...
            if PLACEHOLDER.search(match.group()):
                continue
            with_line = re.match(r":(\d+)", line[match.end():])
            named = match.group() + (with_line.group() if with_line else "")
            if wrong := check_path(named):
                yield f"{number}: {wrong}"


def anchors(text):
    found = set()
    for heading in re.findall(r"^#+\s+(.*)$", text, re.M):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower())
        found.add(slug.replace(" ", "-"))
    return found


def wrong_links(page, text):
    for number, line in lines_of(text):
        for target in LINK.findall(line):
            if target.startswith(("http://", "https://", "mailto:")):
                continue
            path, _, anchor = target.partition("#")
            full = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(os.path.join(ROOT, full)):
                yield f"{number}: the link {target} leads nowhere"
            elif anchor and anchor not in anchors(read(full)):
                yield f"{number}: {full} has no heading #{anchor}"


def wrong_identifiers(text):
    known, _, _ = words_of_sources()
    for number, line in lines_of(text):
        for code in CODE.findall(line):
            if not IDENTIFIER.fullmatch(code):
                continue
            for word in re.split(r"::|\.", code.removesuffix("()")):
                if word not in known and word not in NOT_OURS:
                    yield f"{number}: `{code}`: no source names {word}"


def wrong_flags(text):
    _, known, sources = words_of_sources()
    for number, line in lines_of(text):
        if line.startswith("    kafka-"):
            continue  # a command of Kafka's own
        for flag in FLAG.findall(line):
            if flag not in known | NOT_OURS and f'"{flag[2:]}"' not in sources:
                yield f"{number}: no program of ours has the flag {flag}"


def arrows(text):
    """The list of the section "Who may include whom", as include_rules.MAY_USE has it."""
    section = re.search(r"^## Who may include whom\n(.*?)^## ", text, re.S | re.M).group(1)
    block = "\n".join(line for line in section.split("\n") if line.startswith("    "))
    block = re.sub(r"\n {8,}", " ", block)
    found = {}
    for line in block.split("\n"):
        users, used = line.split("->")
        for user in users.split(","):
            names = [name.strip() for name in used.split(",")]
            if names == ["nothing"]:
                names = []
            elif names == ["everything"]:
                names = sorted(name for name in include_rules.MAY_USE if name != user.strip())
            found[user.strip()] = names
    return found


class Pages(unittest.TestCase):
    def check(self, check):
        wrong = [f"{page}:{what}" for page in pages() for what in check(page, read(page))]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_every_path_that_a_page_names_exists(self):
        self.check(lambda page, text: wrong_paths(text))

    def test_every_link_leads_to_a_file_and_a_heading(self):
        self.check(wrong_links)

    def test_every_type_function_and_field_that_a_page_names_is_in_the_sources(self):
        self.check(lambda page, text: wrong_identifiers(text))

    def test_every_flag_that_a_page_names_is_in_the_sources(self):
        self.check(lambda page, text: wrong_flags(text))

    def test_architecture_is_one_short_page(self):
        self.assertLessEqual(len(read("ARCHITECTURE.md").split()), MOST_WORDS)

    def test_architecture_links_every_page_of_docs(self):
        text = read("ARCHITECTURE.md")
        for page in pages():
            if page.startswith("docs/"):
                self.assertIn(f"({page})", text)

    def test_the_arrows_of_architecture_are_those_that_are_enforced(self):
        self.assertEqual(arrows(read("ARCHITECTURE.md")),
                         {user: sorted(used) for user, used in include_rules.MAY_USE.items()})


class TheTestItself(unittest.TestCase):
    def test_finds_paths_that_are_not_there(self):
        for text in ("`tasks/no_such.cc`", "see tasks/no_such.cc.", "`no_such.h`",
                     "`tasks/no_such/`", "**`tasks/no_such/`**", "    scripts/no_such --x",
                     "`topics/frame.h:99999`", "`stores/no_such.*`", "(`tests/no_such.py`)"):
            self.assertEqual(len(list(wrong_paths(text))), 1, text)

    def test_takes_paths_that_are_there_and_those_of_others(self):
        for text in ("`topics/frame.h`", "`topics/frame.h:1`", "`frame.h`", "`stores/`",
                     "`stores/rocksdb_settings.*`", "build/demo/x.csv", "`/jobs/mine.csv`",
                     "https://example.com/tasks/no_such.cc", "$PWD/build/dev/tasks/x.cc",
                     "and/or", "scripts/bench micro"):
            self.assertEqual(list(wrong_paths(text)), [], text)

    def test_finds_names_links_and_flags_that_are_not_there(self):
        self.assertEqual(len(list(wrong_identifiers("`ShardTask::NoSuchCall`"))), 1)
        self.assertEqual(len(list(wrong_identifiers("`NoSuchType`"))), 1)
        self.assertEqual(len(list(wrong_identifiers("`no_such_call()`"))), 1)
        self.assertEqual(list(wrong_identifiers("`ShardTask::Load`")), [])
        self.assertEqual(len(list(wrong_links("docs/a.md", "[x](no_such.md)"))), 1)
        self.assertEqual(len(list(wrong_links("docs/a.md", "[x](../README.md#no-such)"))), 1)
        self.assertEqual(list(wrong_links("docs/a.md", "[x](../README.md#read-on)")), [])
        self.assertEqual(len(list(wrong_flags("`--there-is-none`"))), 1)

    def test_reads_arrows_over_several_lines(self):
        text = "## Who may include whom\n\n    a, b -> c,\n        d\n    e -> nothing\n\n## Next\n"
        self.assertEqual(arrows(text), {"a": ["c", "d"], "b": ["c", "d"], "e": []})


if __name__ == "__main__":
    unittest.main()
