"""The examples of docs/python.md, run as they stand there; and what the package says of itself."""

import contextlib
import doctest
import re
import tempfile
import unittest

import places

import millrace

PAGE = places.ROOT / "docs" / "python.md"


class Page(unittest.TestCase):
    def test_its_examples_give_what_it_says(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            result = doctest.testfile(str(PAGE), module_relative=False,
                                      optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)  # fmt: skip
        self.assertGreater(result.attempted, 10)
        self.assertEqual(result.failed, 0)


class Package(unittest.TestCase):
    def test_has_the_version_of_the_programs(self):
        text = (places.ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        self.assertEqual(millrace.__version__, re.search(r"VERSION (\d+\.\d+\.\d+)", text).group(1))

    def test_gives_all_that_it_names(self):
        for name in millrace.__all__:
            self.assertIsNotNone(getattr(millrace, name).__doc__, name)
        with self.assertRaises(AttributeError):
            millrace.Nothing  # noqa: B018


if __name__ == "__main__":
    unittest.main()
