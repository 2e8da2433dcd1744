#!/usr/bin/env python3
"""Writes docs/job-file.md from the comments of messages/*.proto and the flags of apps/flag_table.cc.

    docs/make_job_file.py           writes the page
    docs/make_job_file.py --check   exit code 1 if the page is not what would be written
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "job-file.md"
EXAMPLE = ROOT / "docker" / "jobs" / "flights.textproto"
PROTOS = ("job", "features", "topology", "training")
TYPES = {"string": "text", "bool": "true or false", "double": "number", "uint32": "whole number",
         "uint64": "whole number", "int64": "whole number"}

INTRO = """# The job file

All settings of a job can stand in one file in protobuf's text format, which all of its programs get
(`--config FILE`). A program uses what concerns it. A flag overrides its field; a field that there is not is an
error with line and column. `CsvProducer --describe FILE --label COLUMN` writes such a file for a CSV
([files.md](files.md)). For example [docker/jobs/flights.textproto](../docker/jobs/flights.textproto):

{example}
Text stands in quotes; a list in brackets, or its field is repeated; a message in braces. `#` begins a comment.
A choice is written as here (`ONE_PASS`), by its flag in small letters (`one-pass`).

This page is generated from [messages/job.proto](../messages/job.proto),
[features.proto](../messages/features.proto), [topology.proto](../messages/topology.proto) and
[training.proto](../messages/training.proto) by `docs/make_job_file.py`.
"""

# Sections in the order of the page: the path of a message's fields, its type, and who reads it.
SECTIONS = [
    ("", "JobConfig", "All programs"),
    ("features", "FeatureSpec", "`features`: what the columns are (CsvProducer)"),
    ("training", "Training", "`training`: what is learnt, and how (ServerApp; CsvProducer takes buckets by it)"),
    ("training.consistency", "Training.Consistency", "`training.consistency`"),
    ("training.update", "Training.Update", "`training.update`"),
    ("training.optimizer", "Training.Optimizer", "`training.optimizer`"),
    ("training.buffer", "Training.Buffer", "`training.buffer`"),
    ("training.embedding", "Training.Embedding", "`training.embedding`"),
    ("training.compression", "Training.Compression", "`training.compression`"),
    ("csv", "CsvFormat", "`csv`: how CSV files are read (CsvProducer, ServerApp)"),
    ("producer", "Producer", "`producer` (CsvProducer)"),
    ("server", "Server", "`server` (ServerApp)"),
    ("worker", "Worker", "`worker` (WorkerApp)"),
    ("answers", "Answers", "`answers`: how a server's answers come to workers (ServerApp, WorkerApp)"),
    ("kafka", "KafkaSetting", "`kafka`: settings of librdkafka (all programs)"),
    ("topology", "Topology", "`topology`: the job's processes ([topologies.md](topologies.md))"),
    ("topology.server", "ServerConfig", "`topology.server`: a ServerApp"),
    ("topology.worker", "WorkerConfig", "`topology.worker`: a worker process"),
    ("topology.server_group", "ServerSet", "`topology.server_group`: a group of servers"),
]


class Field:
    def __init__(self, kind, repeated, name, default, comment):
        self.kind, self.repeated, self.name = kind, repeated, name
        self.default, self.comment = default, comment


def parse(text):
    """{full name of a message: [Field]}, {full name of an enum: [(choice, comment)]} of one file. Only the
    form that these files have is read: a statement a line."""
    messages, enums, scope, comment, aside = {}, {}, [], [], None
    for number, line in enumerate(text.split("\n"), 1):
        code, slashes, trailing = line.partition("//")
        column = len(code) if slashes else None
        code, trailing = code.strip(), trailing.strip()
        if not code and slashes and column == aside:  # goes on beside the statement before
            choices = enums[".".join(name for _, name in scope)]
            choices[-1] = (choices[-1][0], f"{choices[-1][1]} {trailing}")
            continue
        aside = None
        if not code:
            comment = [*comment, trailing] if slashes else []
            continue
        full = ".".join(name for _, name in scope)
        said = " ".join(comment) or trailing
        comment = []
        opened = re.fullmatch(r"(message|enum) (\w+) \{", code)
        field = re.fullmatch(r"(optional|repeated) ([\w.]+) (\w+) = \d+(?: \[(.*)\])?;", code)
        choice = re.fullmatch(r"(\w+) = \d+;", code)
        if opened:
            scope.append(opened.groups())
            (messages if opened[1] == "message" else enums)[".".join(name for _, name in scope)] = []
        elif code == "}":
            scope.pop()
        elif field:
            default = re.search(r"default = (\S+?)(?:,|$)", field[4] or "")
            messages[full].append(Field(field[2], field[1] == "repeated", field[3],
                                        default and default[1], said))
        elif choice and scope and scope[-1][0] == "enum":
            enums[full].append((choice[1], said))
            aside = column
        elif not re.match(r"(syntax|package|import|reserved)\b", code):
            raise SystemExit(f"line {number}: {line!r} is of a form that is not known here")
    return messages, enums


def read_protos():
    messages, enums = {}, {}
    for name in PROTOS:
        found = parse((ROOT / "messages" / f"{name}.proto").read_text(encoding="utf-8"))
        messages.update(found[0])
        enums.update(found[1])
    return messages, enums


def read_flags():
    """{path of a field: its flag}"""
    text = (ROOT / "apps" / "flag_table.cc").read_text(encoding="utf-8")
    found = {}
    for names, path in re.findall(r'\{"(--[^"]+)",\s*"([\w.]+)",', text):
        found.setdefault(path, names.split(",")[0])
    return found


def resolve(kind, owner, known):
    """The full name of a type that is named inside of a message; None: it is not among these."""
    for i in range(len(owner.split(".")), -1, -1):
        full = ".".join([*owner.split(".")[:i], kind])
        if full in known:
            return full
    return None


def sentence(text):
    if "_" not in text.split(" ")[0]:
        text = text[:1].upper() + text[1:]
    return text if not text or text.endswith((".", ":", ")")) else text + "."


def row_of(field, path, owner, enums, flags):
    enum = resolve(field.kind, owner, enums)
    kind = "choice" if enum else TYPES[field.kind]
    text = sentence(field.comment)
    if enum:
        choices = [f"`{name}`" + (f": {said[:1].lower()}{said[1:].rstrip('.')}" if said else "")
                   for name, said in enums[enum]]
        text += f" {'; '.join(choices)}."
    # A default that depends on other settings is told in words.
    default = f"`{field.default}`" if field.default and "Not set:" not in field.comment else ""
    cells = [f"`{field.name}`", f"list of {kind}s" if field.repeated else kind, default,
             f"`{flags[path]}`" if path in flags else "", text]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page():
    messages, enums = read_protos()
    flags = read_flags()
    example = "".join(f"    {line}\n" if line else "\n" for line in
                      EXAMPLE.read_text(encoding="utf-8").rstrip("\n").split("\n"))
    parts = [INTRO.format(example=example)]
    told = {owner for _, owner, _ in SECTIONS}
    for prefix, owner, title in SECTIONS:
        about = next((f.comment for fields in messages.values() for f in fields
                      if prefix and f.name == prefix.split(".")[-1] and f.comment), "")
        parts.append(f"\n## {title}\n")
        if prefix.startswith("training.") or prefix == "topology":
            parts.append(f"\n{sentence(about)}\n")
        if prefix in flags:
            parts.append(f"\nIts flag is `{flags[prefix]}`.\n")
        if prefix != "topology":  # its fields are the next sections
            parts.append("\n| field | type | default | flag | meaning |\n| --- | --- | --- | --- | --- |\n")
        for field in messages[owner]:
            path = f"{prefix}.{field.name}" if prefix else field.name
            message = resolve(field.kind, owner, messages)
            if message is None:
                parts.append(row_of(field, path, owner, enums, flags) + "\n")
            elif message == "FeatureSpec.BinEdges":
                said = ", ".join(f"`{f.name}` ({f.comment or 'the name'})" for f in messages[message])
                parts.append(f"| `{field.name}` | list of messages | | | {sentence(field.comment)} "
                             f"Each has {said}. |\n")
            elif message not in told:
                raise SystemExit(f"the message {message} ({path}) has no section: add one to SECTIONS")
    return "".join(parts)


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    text = page()
    if sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print("docs/job-file.md is not what messages/*.proto and apps/flag_table.cc say: run "
              "docs/make_job_file.py", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
