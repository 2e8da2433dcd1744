#!/usr/bin/env python3
"""docs/job-file.md is what docs/make_job_file.py makes of the .proto files, and every field is in it."""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import make_job_file  # noqa: E402

PROTO = """
message Outer {
  // What comes before,
  // over two lines.
  optional uint32 rows = 1 [default = 32];  // not this
  enum Kind {
    ONE = 0;  // said beside it,
              // over two lines
    // Said before.
    TWO = 1;
  }
  optional Kind kind = 2;  // beside
  repeated double edge = 3 [packed = true];

  // Of nothing.

  reserved 4;
}
"""


class JobFile(unittest.TestCase):
    def test_the_page_is_up_to_date(self):
        result = subprocess.run([ROOT / "docs" / "make_job_file.py", "--check"], text=True, check=False,
                                capture_output=True)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_every_field_of_a_job_is_there_with_a_meaning(self):
        page = make_job_file.PAGE.read_text(encoding="utf-8")
        rows = re.findall(r"^\| `(\w+)` \|(?:.*\|){3} (.*) \|$", page, re.M)
        for name in make_job_file.PROTOS:
            text = (ROOT / "messages" / f"{name}.proto").read_text(encoding="utf-8")
            for kind, field in re.findall(r"(?:optional|repeated) (\w+) (\w+) = ", text):
                told = [meaning for found, meaning in rows if found == field]
                if kind[0].isupper() and not told:  # a message, which has a section
                    self.assertRegex(page, rf"(?m)^## `(training\.|topology\.)?{field}`")
                elif field not in ("column", "edge"):  # of bin_edges
                    self.assertTrue(told and all(told), f"{name}.proto: {field} has no comment")

    def test_comments_defaults_and_choices_are_read(self):
        messages, enums = make_job_file.parse(PROTO)
        self.assertEqual([(f.name, f.kind, f.repeated, f.default, f.comment) for f in messages["Outer"]],
                         [("rows", "uint32", False, "32", "What comes before, over two lines."),
                          ("kind", "Kind", False, None, "beside"),
                          ("edge", "double", True, None, "")])
        self.assertEqual(enums, {"Outer.Kind": [("ONE", "said beside it, over two lines"),
                                                ("TWO", "Said before.")]})

    def test_a_form_that_is_not_known_is_an_error(self):
        with self.assertRaises(SystemExit):
            make_job_file.parse("message A {\n  oneof kind {\n")

    def test_flags_stand_beside_their_fields(self):
        flags = make_job_file.read_flags()
        self.assertEqual(flags["training.batch_rows"], "--batch-rows")
        self.assertEqual(flags["producer.input"], "--input")
        self.assertGreater(len(flags), 90)


if __name__ == "__main__":
    unittest.main()
