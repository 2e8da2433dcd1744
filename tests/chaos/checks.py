"""What must be true of a job that has ended. Pure: each returns what is wrong, as sentences."""

import collections
import re

# A line of a program's log: time, level, text. In colour where the log is a terminal.
LINE = re.compile(r"^\d\d:\d\d:\d\d\.\d{3} (?:\x1b\[[0-9;]*m)*(\w+)(?:\x1b\[m)? (.*)")
LEGAL_LEVELS = {"trace", "debug", "info", "warning"}
# Of our own checks, the C++ runtime, sanitizers, and of librdkafka past our log.
CRASH = re.compile(r"broken invariant|terminate called|what\(\):|Assertion|Sanitizer|runtime error|"
                   r"[Ss]egmentation|^\*\*\*|^%\d\|")
END_OF_PROGRAM = re.compile(r"^(ServerApp|WorkerApp|CsvProducer|Watch): ")
# What the system says of a full disk, or of a file that may not grow (see disks.py).
FULL = re.compile(r"No space left on device|File too large")


def wrong_counts(summary, rows, schedule):
    """Of Watch's summary: each row once. On a sliding buffer rows are replaced before they are
    trained on when they come faster than rounds are made, so that no more than all are counted."""
    wrong = []
    if not summary.get("ended"):
        wrong.append("Watch says that the job has not ended")
    counted = {"rows trained on": summary.get("rows_trained"),
               "rows tested before": summary.get("progressive", {}).get("rows", 0)}
    for what, count in counted.items():
        if schedule == "one-pass" and count != rows:
            wrong.append(f"{what}: {count} instead of {rows}")
        elif not 0 < (count or 0) <= rows:
            wrong.append(f"{what}: {count} of {rows}")
    for what in "refused", "non_finite_updates", "undecodable_rows":
        if summary.get(what) != 0:  # nor may the figure be missing
            wrong.append(f"{what}: {summary.get(what)}")
    return wrong


def different_results(weights, expected_weights, rows, expected_rows):
    """Of two runs of the same sequential one-pass job: bytes of weights, embedding rows by id."""
    wrong = []
    if weights != expected_weights:
        wrong.append(f"the weights differ from those of the undisturbed run ({len(weights)} and "
                     f"{len(expected_weights)} bytes)")
    missing, surplus = expected_rows.keys() - rows.keys(), rows.keys() - expected_rows.keys()
    other = {i for i in rows.keys() & expected_rows.keys() if rows[i] != expected_rows[i]}
    for what, ids in ("missing", missing), ("surplus", surplus), ("different", other):
        if ids:
            wrong.append(f"{len(ids)} of {len(expected_rows)} embedding rows are {what}, such as "
                         f"{sorted(ids)[:3]}")
    return wrong


def wrong_rejects(found, malformed):
    """Of the reject file: it has each malformed row once, in order. (What a row is, by its id.)"""
    if found == malformed:
        return []
    counts = collections.Counter(found)
    missing = [row for row in malformed if row not in counts]
    surplus = [row for row, count in counts.items() if count > 1 or row not in set(malformed)]
    return [f"the reject file has {len(found)} rows of {len(malformed)}: missing are "
            f"{missing[:3] or 'none'}, too often or wrongly there {surplus[:3] or 'none'}"]


def unexplained_end(name, said, folder):
    """Of a program that ended with an error after its disk was full: what it said since its start."""
    ends = [line for line in said.splitlines() if END_OF_PROGRAM.match(line)]
    if ends and str(folder) in ends[-1] and FULL.search(ends[-1]):
        return []
    return [f"{name} does not say that {folder} is full, but ended with: "
            f"{ends[-1][:300] if ends else 'no error'}"]


def wrong_lines(log, may_have_ended):
    """Lines of a log that nobody should write. may_have_ended: it has ended with an error that was
    caused, of which it says why. (What librdkafka tells of connections is a warning.)"""
    wrong = []
    for line in log.splitlines():
        match = LINE.match(line)
        if (match and match.group(1) not in LEGAL_LEVELS or CRASH.search(line)
                or END_OF_PROGRAM.match(line) and not may_have_ended):
            wrong.append(line[:300])
    return wrong


def warnings(log):
    """Kinds of warnings, their numbers and names left out, and how often each came."""
    kinds = collections.Counter()
    for line in log.splitlines():
        match = LINE.match(line)
        if match and match.group(1) == "warning" or line.startswith("kafka: "):
            text = re.sub(r"/\S+", "PATH", match.group(2) if match else line)
            text = re.sub(r"job\d+-?\w*", "JOB", text)
            kinds[re.sub(r"\d[\d.,:]*", "N", text)[:110]] += 1
    return kinds


def too_much_memory(peaks, limits):
    """By program: peaks in bytes, limits in bytes by the beginning of a name."""
    wrong = []
    for name, peak in peaks.items():
        limit = next((most for start, most in limits.items() if name.startswith(start)), None)
        if limit is not None and peak > limit:
            wrong.append(f"{name} took {peak >> 20} MiB of memory; {limit >> 20} are its limit")
    return wrong
