"""Short rows: one pass over flights, ten columns a row, softmax, from the file to the weights.

CsvProducer, a ServerApp and two WorkerApps on a real Kafka, batches of 128 rows. Ours is rows per
second of processor time, of all processes and the broker together; the floor is a bare consumer and a
bare producer of the same records with the broker, which parse and learn nothing. Each turn also prints
how long a row takes each process.

A broker's first jobs cost several times as much, until the JVM has compiled what they use: so jobs
run first that are not counted, until two in a row cost about the same (at most ten).
"""

import time

from common import Job, Programs, TOOLS, compared, cpu_s

FEATURES = ["--label", "late", "--classes", "no,yes",
            "--numeric", "distance,hour_flights,temp,wind_speed,visib",
            "--categorical", "carrier,dest,hour,weekday,origin", "--categorical-buckets", "1024"]
TRAINING = ["--optimizer", "adagrad", "--learning-rate", "0.04", "--batch-rows", "128"]


def bare(options, name, *flags):
    """Processor time of a bare client and the broker."""
    before = cpu_s(options.broker_pid)
    with Programs(name) as programs:
        programs.start("bare", TOOLS / "kafka" / "bare_ingest", "--brokers", options.broker, *flags)
        programs.wait("bare")
        return programs.cpu_s["bare"] + cpu_s(options.broker_pid) - before


def warm_up(train):
    rate = train("warm-0")
    for turn in range(1, 10):
        before, rate = rate, train(f"warm-{turn}")
        if rate < 1.05 * before:
            return


def run(options):
    with open(options.flights, encoding="utf-8") as file:
        rows = (sum(1 for _ in file) - 1) * options.rows_epochs
    tag = f"rows-{options.stamp}"

    def train(turn):
        with Job(options.broker, f"{tag}-{turn}", TRAINING) as job:
            before, begin = cpu_s(options.broker_pid), time.monotonic()
            job.produce(options.flights, "--epochs", options.rows_epochs, features=FEATURES)
            job.serve()
            job.wait("producer", "server", *job.work())
            passed = time.monotonic() - begin
            used = {**job.cpu_s, "broker": cpu_s(options.broker_pid) - before}
            rate = rows / sum(used.values())
            print(f"  job: {rate:,.0f} rows per processor second, {rows / passed:,.0f} rows/s; "
                  "microseconds of processor time a row: " +
                  ", ".join(f"{name} {1e6 * s / rows:.2f}" for name, s in used.items()), flush=True)
            return rate

    def move(turn):
        # Of a stream that nobody has trained on, since workers delete what they have used.
        name = f"{tag}-copied-{turn}"
        with Job(options.broker, name) as job:
            job.produce(options.flights, "--epochs", options.rows_epochs, features=FEATURES)
            job.wait("producer")
            read = bare(options, f"{name}-read", "--from", f"{name}.input-data")
            both = bare(options, f"{name}-copy", "--from", f"{name}.input-data", "--copy-to",
                        f"{name}.copy")
        # (The copy is read first, too, but sent from memory.)
        print(f"  bare consumer, and producer: {rows / both:,.0f} rows per processor second "
              f"(consumer alone {rows / read:,.0f})", flush=True)
        return rows / both

    ours, floor = [], []
    warm_up(train)
    for turn in range(options.turns):
        ours.append(train(turn))
        floor.append(move(turn))
    return [compared("rows of ten columns, one pass, with the broker", "rows per processor second", ours, floor)]
