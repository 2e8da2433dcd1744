"""Kafka brokers of the evaluation's own, by scripts/kafka."""

import pathlib
import subprocess

import programs

ROOT = pathlib.Path(__file__).resolve().parents[2]
# So that files show all that was ever written: nothing that is deleted or compacted goes from the disk.
KEEPS_ALL = ["log.segment.delete.delay.ms=86400000", "log.cleaner.backoff.ms=86400000",
             "log.retention.check.interval.ms=86400000"]


class Broker:
    """Started when its address is first asked for."""

    def __init__(self, folder, profile, settings=()):
        self.folder, self.profile, self.settings = pathlib.Path(folder), profile, list(settings)
        self.started = False

    def _call(self, *words):
        # In a session of its own: Ctrl-C in a terminal does not reach the broker before its clients.
        done = subprocess.run([ROOT / "scripts" / "kafka", *words, "--dir", self.folder], check=False,
                              capture_output=True, text=True, start_new_session=True)
        if done.returncode != 0:
            raise programs.Failed(f"scripts/kafka {words[0]}: {programs.last_line(done.stderr)}")
        return done.stdout.strip()

    def address(self):
        if not self.started:
            self._call("clean")
            self.started = True  # even a start that is interrupted may leave one
            self._call("start", "--profile", self.profile, "--heap", "384m",
                       *(word for setting in self.settings for word in ("--config", setting)))
        return self._call("bootstrap")

    def pid(self):
        return int((self.folder / "node-1" / "pid").read_text(encoding="ascii"))

    def cpu_s(self):
        return programs.cpu_s(self.pid())

    def peak_mib(self):
        return programs.peak_mib(self.pid())

    def topic_bytes(self, job):
        """The bytes of all records that were written to each topic of a job (by its name without the
        job's), as they are on disk, indexes not counted. Of a broker that keeps all."""
        sizes = {}
        for folder in (self.folder / "node-1" / "data").glob(f"{job}.*"):
            topic = folder.name[len(job) + 1:].rsplit("-", 1)[0]
            sizes[topic] = sizes.get(topic, 0) + sum(
                file.stat().st_size for pattern in ("*.log", "*.log.deleted") for file in folder.glob(pattern))
        return sizes

    def remove_topics(self, prefix):
        """Of jobs that have ended and whose names begin so."""
        subprocess.run([ROOT / "scripts" / "kafka", "--dir", self.folder, "tool", "kafka-topics", "--delete",
                        "--if-exists", "--topic", f"{prefix}.*"], check=False, capture_output=True,
                       start_new_session=True)

    def end(self):
        if self.started:
            subprocess.run([ROOT / "scripts" / "kafka", "clean", "--dir", self.folder], check=False,
                           capture_output=True, start_new_session=True)
            self.started = False
