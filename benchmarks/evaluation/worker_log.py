"""What WorkerApps' evaluation logs tell of a job: how far its workers were apart, and how good the model
was at each moment. Pure, apart from `read`.

A log has a line for each batch, with the figures of its rows before they were learnt.
"""

import csv
import dataclasses
import statistics


@dataclasses.dataclass
class Batch:
    ms: int  # when it was computed, by the clock of the worker's machine
    worker: int
    count: int  # batches of this worker up to it, this one counted
    rows: int
    loss: float


def read(paths):
    """The batches of these logs, in the order of time."""
    found = []
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            found += [(int(line["timestamp"]), int(line["partition"]), int(line["numTuplesSeen"]),
                       float(line["loss"])) for line in csv.DictReader(file, delimiter=";")]
    return batches(found)


def batches(lines):
    """Of (milliseconds, partition, rows seen by it, loss), in any order."""
    result, seen = [], {}
    for ms, worker, rows_seen, loss in sorted(lines):
        count, before = seen.get(worker, (0, 0))
        seen[worker] = (count + 1, rows_seen)
        result.append(Batch(ms, worker, count + 1, rows_seen - before, loss))
    return result


def rows_by(some, ms):
    """How many rows the workers had used at a moment."""
    return sum(batch.rows for batch in some if batch.ms <= ms)


def while_all_work(some):
    """The batches up to the moment at which the first worker had made its last: from then on fewer work,
    and nobody waits for those that are done."""
    last = {batch.worker: batch.ms for batch in some}
    end = min(last.values(), default=0)
    return [batch for batch in some if batch.ms <= end]


def leads(some):
    """After each batch, by how many batches the first worker was ahead of the last."""
    counts = {batch.worker: 0 for batch in some}
    result = []
    for batch in some:
        counts[batch.worker] = batch.count
        result.append(max(counts.values()) - min(counts.values()))
    return result


def pace(some):
    """While all work: rounds per second (of the slowest worker: the job's clock), updates per second (of
    all), the median and the most of the leads. Without figures where there are too few batches."""
    working = while_all_work(some)
    if len(working) < 2 or working[-1].ms == working[0].ms:
        return {"rounds_per_s": None, "updates_per_s": None, "lead_median": None, "lead_most": None}
    seconds = (working[-1].ms - working[0].ms) / 1000
    counts = {}
    for batch in working:
        counts[batch.worker] = batch.count
    apart = leads(working)
    return {"rounds_per_s": min(counts.values()) / seconds, "updates_per_s": len(working) / seconds,
            "lead_median": statistics.median(apart), "lead_most": max(apart)}


def curve(some, points):
    """The mean loss of the rows of each of so many stretches of equally many batches: lists of the
    seconds since the first batch, of the rows up to the stretch's end, and of the losses."""
    seconds, rows, losses = [], [], []
    if not some:
        return seconds, rows, losses
    size = max(1, -(-len(some) // points))
    total = 0
    for begin in range(0, len(some), size):
        part = some[begin:begin + size]
        count = sum(batch.rows for batch in part)
        if count == 0:
            continue
        total += count
        seconds.append((part[-1].ms - some[0].ms) / 1000)
        rows.append(total)
        losses.append(sum(batch.loss * batch.rows for batch in part) / count)
    return seconds, rows, losses


def so_far(rows, losses):
    """Of a curve: the mean loss of all rows up to each point."""
    total, before, means = 0.0, 0, []
    for count, loss in zip(rows, losses):
        total += (count - before) * loss
        before = count
        means.append(total / count)
    return means
