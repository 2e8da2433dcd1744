"""What a run has found, in sentences and as JSON."""

import collections
import json
import time

import samples


def _mib(size):
    return f"{size / (1 << 20):.1f} MiB"


class Report:
    def __init__(self):
        self.began = time.monotonic()
        self.jobs, self.kinds = 0, collections.Counter()
        self.events, self.not_reached = collections.Counter(), collections.Counter()
        self.packets, self.warnings = collections.Counter(), collections.Counter()
        self.ends = collections.Counter()
        self.buffered = [0, 0]  # rows of buffers that were counted, of those sent
        self.rows = self.runs = self.comparisons = self.embedding_rows = self.rejected = 0
        self.asked = self.snapshots = self.restarts = 0
        self.peaks, self.disk = {}, []  # bytes by program; (seconds, bytes) after each job
        self.topic_peaks = {}
        self.failures, self.impossible = [], {}

    def add_stage(self, stage):
        self.runs += 1
        for event, began, _, note in stage.happened:
            kind = f"{event.name} {'broker' if event.target.startswith('broker') else 'program'}"
            (self.not_reached if began is None else self.events)[kind] += 1
            if event.kind in ("fill", "fill-start", "replace") and began is not None:
                self.ends[f"{event.kind} {event.target.rstrip('0123456789')}: {note}"] += 1
        self.packets.update(stage.packets)
        self.asked += len(stage.asks)
        self.ends["snapshot: asked for until the job had ended"] += stage.asked_in_vain
        for series, peaks in (stage.memory, self.peaks), (stage.topics, self.topic_peaks):
            for name in series.points:
                kind = name.rstrip("0123456789") if series is stage.memory else name
                peaks[kind] = max(peaks.get(kind, 0), series.peak(name))

    def add_disk(self, size):
        self.disk.append((time.monotonic() - self.began, size))

    def disk_slope(self):
        """Bytes a job: the cluster's disk after each, whose topics are deleted. The first few fill
        what stays."""
        return samples.slope([(i, size) for i, (_, size) in enumerate(self.disk)][1:])

    def lines(self):
        minutes = (time.monotonic() - self.began) / 60

        def counts(counter):
            return ", ".join(f"{n} {what}" for what, n in sorted(counter.items()) if n) or "none"

        lines = [
            f"{self.jobs} jobs in {minutes:.1f} minutes ({counts(self.kinds)})",
            f"events: {sum(self.events.values())} ({counts(self.events)})",
            f"  drawn, but the job had ended or nobody was there: {counts(self.not_reached)}",
            f"  packets dropped or delayed: {counts(self.packets)}",
            f"  what came of it: {counts(self.ends)}",
            f"rows: {self.rows:,} counted exactly once in {self.runs} runs; on sliding buffers, which "
            f"replace rows, {self.buffered[0]:,} of {self.buffered[1]:,}; "
            f"{self.rejected:,} malformed ones in reject files",
            f"bytes: {self.comparisons} results equal to the undisturbed run's, with "
            f"{self.embedding_rows:,} embedding rows",
            f"snapshots: {self.snapshots} whole of {self.asked} asked for; {self.restarts} jobs went "
            "on from one on another number of shards",
            "memory, at most: " + ", ".join(f"{name} {_mib(peak)}"
                                            for name, peak in sorted(self.peaks.items())),
            "topics on a broker's disk, at most: " + ", ".join(
                f"{name} {_mib(peak)}" for name, peak in sorted(self.topic_peaks.items())),
        ]
        if self.disk:
            lines.append(f"a broker's disk after each job: first {_mib(self.disk[0][1])}, last "
                         f"{_mib(self.disk[-1][1])}, {self.disk_slope() / (1 << 20):+.2f} MiB a job")
        for text, count in self.warnings.most_common(12):
            lines.append(f"  warned {count} times: {text}")
        for what, why in self.impossible.items():
            lines.append(f"NOT TRIED HERE: {what}: {why}")
        lines += [f"FAILED: {failure}" for failure in self.failures]
        return lines

    def write(self, path):
        known = {name: value for name, value in vars(self).items() if name != "began"}
        path.write_text(json.dumps(known, indent=2, default=str) + "\n")
