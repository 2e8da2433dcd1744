"""Rows into and out of input-data, against bare librdkafka.

ingest: a WorkerApp (buffer schedule, all four logical workers) reads the whole stream, checks and
numbers every row, keeps the newest 1,024 of each worker and writes them to RocksDB every half
second, commits and trims. No server answers it, so nothing is trained meanwhile. The time is that
between "joined; reads rows" and the end of the last partition, by its own log; its floor is a bare
consumer of the same topic, from its first fetch to the last record.

produce: CsvProducer, from reading the file to the last confirmation, against a bare producer that
sends the same records from memory, with the same settings.
"""

import datetime
import re

from common import Job, Programs, TOOLS, compared, in_turns, text_rows

TARGET = 0.5
ROWS_IN_FILE = 100_000
BUFFER = ["--schedule", "buffer", "--buffer-min", "1024", "--buffer-max", "1024",
          "--skip-rows", "--update", "gradient"]  # fmt: skip


def seconds_between(log, first, last):
    """Of the first line with one text and the last with another; times of day, with milliseconds."""
    def times(text):
        pattern = re.compile(r"^(\d\d:\d\d:\d\d\.\d{3}) .*" + re.escape(text), re.M)
        return [datetime.datetime.strptime(t, "%H:%M:%S.%f") for t in pattern.findall(log)]
    passed = (max(times(last)) - min(times(first))).total_seconds()
    return passed % 86_400  # past midnight


def bare(options, name, *flags):
    with Programs(name) as programs:
        programs.start("bare", TOOLS / "kafka" / "bare_ingest", "--brokers", options.broker, *flags)
        programs.wait("bare")
        return float(programs.log("bare").split()[0])


def run(options):
    data = text_rows(ROWS_IN_FILE, "text")
    epochs = max(1, options.ingest_rows // ROWS_IN_FILE)
    rows = epochs * ROWS_IN_FILE
    tag = f"ingest-{options.stamp}"

    def produce(turn):
        # A job for each turn. (Named so that the first is the one that is read below.)
        with Job(options.broker, f"{tag}-{turn}", keeps_topics=True) as job:
            job.produce(data, "--epochs", epochs)
            job.wait("producer")
            rate = job.rows_per_second_sent()
            print(f"  CsvProducer: {rate:,.0f} rows/s", flush=True)
            return rate

    def copy(turn):
        rate = bare(options, f"{tag}-copy-{turn}", "--from", f"{tag}-{turn}.input-data",
                    "--copy-to", f"{tag}-{turn}.copy")
        print(f"  bare producer: {rate:,.0f} rows/s", flush=True)
        return rate

    def ingest(turn):
        with Job(options.broker, f"{tag}-{turn}", BUFFER) as job:
            # The server says how the job learns, and goes.
            job.serve()
            job.wait_for("server", "answers workers")
            job.stop("server")
            job.work(processes=1)
            job.wait_for("worker-0", "end of the stream", count=4)
            seconds = seconds_between(job.log("worker-0"), "joined; reads rows", "end of the stream")
            job.stop("worker-0")
            print(f"  WorkerApp: {rows / seconds:,.0f} rows/s", flush=True)
            return rows / seconds

    def consume(turn):
        rate = bare(options, f"{tag}-bare-{turn}", "--from", f"{tag}-{turn}.input-data")
        print(f"  bare consumer: {rate:,.0f} rows/s", flush=True)
        return rate

    sent, copied = in_turns(options.turns, produce, copy)
    # The bare consumer comes first: the worker deletes what it has read.
    consumed, ingested = in_turns(options.turns, consume, ingest)
    return [
        compared("ingest, input-data to the RocksDB buffers", "rows/s", ingested, consumed,
                 f">= {TARGET}"),
        compared("CsvProducer, text to input-data", "rows/s", sent, copied, f">= {TARGET}"),
    ]
