"""Examples per second and core, one pass over hashed text, against Vowpal Wabbit.

Both read the same texts from a file, and parse and hash them; a core is a second of processor time
of all of a side's processes and threads, Vowpal Wabbit's parser thread among them. 1,024 hashed
features and 6 classes on both sides. (Vowpal Wabbit's -b counts the weights of all classes together
and is a power of two: 13.) It updates after each example; ours after each 128 rows, as four workers
with batches of 32 do.

Each side's progressive accuracy is printed, so that nobody wins by learning nothing.
"""

import re

from common import Job, Programs, TEXT, TOOLS, compared, cpu_s, text_rows

BATCH = 32
WORKERS = 4


def bare_process(name, said, *words):
    with Programs(name) as programs:
        programs.start("learner", *words)
        programs.wait("learner")
        return programs.cpu_s["learner"], float(re.search(said, programs.log("learner"))[1])


def run(options):
    rows = options.train_rows
    csv, vw = text_rows(rows, "train", vw=True)
    alone, with_kafka, with_broker, wabbit = [], [], [], []
    for turn in range(options.turns):
        seconds, accuracy = bare_process(
            f"train-alone-{turn}", r"accuracy ([\d.]+)", TOOLS / "text" / "one_pass", *TEXT,
            "--input", csv, "--batch-rows", BATCH * WORKERS)
        alone.append(rows / seconds)
        print(f"  one process, no Kafka: {alone[-1]:,.0f} examples/s and core, "
              f"accuracy {accuracy:.3f}", flush=True)

        seconds, loss = bare_process(
            f"train-vw-{turn}", r"average loss = ([\d.]+)", options.vw_python, "-m", "vowpalwabbit",
            "--oaa", 6, "-b", 13, "-d", vw)
        wabbit.append(rows / seconds)
        print(f"  Vowpal Wabbit: {wabbit[-1]:,.0f} examples/s and core, accuracy {1 - loss:.3f}",
              flush=True)

        with Job(options.broker, f"train-{options.stamp}-{turn}",
                 ["--update", "gradient", "--batch-rows", str(BATCH)]) as job:
            before = cpu_s(options.broker_pid)
            job.produce(csv)
            job.serve()
            names = ["producer", "server", *job.work()]
            job.wait(*names)
            used = sum(job.cpu_s.values())
            with_kafka.append(rows / used)
            with_broker.append(rows / (used + cpu_s(options.broker_pid) - before))
        print(f"  with Kafka: {with_kafka[-1]:,.0f} examples/s and core", flush=True)
    unit = "examples/s and core"
    return [
        compared("one pass over text, no Kafka, against Vowpal Wabbit", unit, alone, wabbit, ">= 1"),
        compared("the same by CsvProducer, ServerApp, 2 WorkerApps", unit, with_kafka, wabbit),
        compared("the same, the broker's time counted too", unit, with_broker, wabbit),
    ]
