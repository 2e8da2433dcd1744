#!/usr/bin/env python3
"""No two classes of the project have one name: a program that links both would use either for both, and
neither the compiler nor the linker tells. Classes in a namespace without a name, in another class or in a
function are their file's own. A message of messages/ is a class, too."""

import os
import re
import subprocess
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
# Programs of their own, which link nothing of ours but what is installed.
FOREIGN = ("examples/", "tests/install/")

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/'                         # comments
    r'|R"(?P<fence>[^(\s"]*)\(.*?\)(?P=fence)"'   # texts, where braces mean nothing
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\''
    r'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*'             # the preprocessor's lines
    r'|\bnamespace\b[^{;=]*(?=[{;=])'
    r'|\b(?:class|struct|union|enum(?:\s+class)?)\s+(?:\[\[[^\]]*\]\]\s*|alignas\([^)]*\)\s*)?'
    r'(?P<name>[A-Za-z_]\w*\b)(?!::)[^;{}()=<>]*(?:<[^;{}()]*>[^;{}()=]*)?(?=\{)'
    r'|[{}]', re.S | re.M)
MESSAGE = re.compile(r"^(?:message|enum)\s+(\w+)", re.M)


def classes(text):
    """The names with namespaces of the classes of a file that other files could have, too."""
    found, scopes, opening = [], [], None
    for token in TOKEN.finditer(text):
        word = token.group(0)
        if token.group("name"):
            # An explicit specialisation is not matched: it has no name of its own.
            if all(scope is not None for scope in scopes):
                found.append("::".join(scopes + [token.group("name")]))
        elif word.startswith("namespace"):
            opening = "::".join(re.findall(r"\w+", word)[1:]) or None
            opening = (opening,)
        elif word == "{":
            scopes.append(opening[0] if opening else None)
            opening = None
        elif word == "}":
            scopes.pop()
    return found


def messages(text):
    package = re.search(r"^package\s+([\w.]+)", text, re.M)
    return ["::".join(package.group(1).split(".") + [name]) for name in MESSAGE.findall(text)]


def clashes(files):
    """Of (path, text): a line for each name that two files have."""
    places = {}
    for path, text in files:
        for name in messages(text) if path.endswith(".proto") else classes(text):
            places.setdefault(name, []).append(path)
    return [f"{name} is defined in {', '.join(sorted(paths))}"
            for name, paths in sorted(places.items()) if len(set(paths)) > 1]


def sources():
    listed = subprocess.run(["git", "ls-files", "*.h", "*.cc", "*.proto"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split()
    for path in listed:
        full = os.path.join(ROOT, path)
        if not path.startswith(FOREIGN) and os.path.exists(full):
            with open(full, encoding="utf-8") as file:
                yield path, file.read()


class OneName(unittest.TestCase):
    def test_no_two_files_define_a_class_of_one_name(self):
        files = list(sources())
        self.assertGreater(sum(len(classes(text)) for path, text in files), 500)
        self.assertFalse(found := clashes(files), "\n" + "\n".join(found))


class TheTestItself(unittest.TestCase):
    def names(self, text):
        return classes(text)

    def test_sees_classes_in_named_namespaces_only(self):
        self.assertEqual(self.names("""
            namespace a::b {
            class One final : public Base<int> { struct Inner {}; void F() { struct Local {}; } };
            class Declared;
            namespace { struct Own {}; }
            // class Comment {
            const char* text = "class Text {";
            }
            struct Two { int x = '{'; };
            enum class Three : char { kX };
            """), ["a::b::One", "Two", "Three"])

    def test_sees_two_files_and_a_message_of_one_name(self):
        file = "namespace m { class One {}; }"
        self.assertEqual(clashes([("a.h", file), ("b.cc", file)]), ["m::One is defined in a.h, b.cc"])
        self.assertEqual(clashes([("a.proto", "package m;\nmessage One {\n  message In {}\n}\n"),
                                  ("b.cc", file)]), ["m::One is defined in a.proto, b.cc"])
        self.assertEqual(clashes([("a.h", file), ("b.cc", "namespace n { class One {}; }")]), [])


if __name__ == "__main__":
    unittest.main()
