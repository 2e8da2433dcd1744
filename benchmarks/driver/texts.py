"""Examples per second and core, one pass over hashed text, against Vowpal Wabbit.

Both read the same texts from a file, and parse and hash them; a core is a second of processor time
of all of a side's processes and threads, Vowpal Wabbit's parser thread among them.

Once with default settings on both sides, which are 2^18 buckets, and an update of each row by itself.
And once with 1,024 hashed features and 6 classes. (Vowpal Wabbit's -b counts the weights of all classes
together and is a power of two: 13.) It updates after each example; ours after each 128 rows, as four
workers with batches of 32 do.

Each side's progressive accuracy is printed, so that nobody wins by learning nothing.
"""

import json
import re

from common import APPS, Job, Programs, TEXT, TOOLS, compared, cpu_s, text_rows

BATCH = 32
WORKERS = 4
COLUMNS = TEXT[:-2]  # without the number of buckets
# By name: our flags of features and of training, and Vowpal Wabbit's.
KINDS = {"defaults": (COLUMNS, [], []),
         "1,024 buckets": (TEXT, ["--update", "gradient", "--batch-rows", str(BATCH)], ["-b", 13])}


def bare_process(name, said, *words):
    """Processor time, in seconds, and the figure that it says."""
    with Programs(name) as programs:
        programs.start("learner", *words)
        programs.wait("learner")
        return programs.cpu_s["learner"], float(re.search(said, programs.log("learner"))[1])


def alone(kind, name, csv):
    """One process without Kafka."""
    if kind == "defaults":
        return bare_process(name, r'"accuracy":([\d.]+)', TOOLS / "learning" / "learn_csv", *COLUMNS,
                            "--input", csv, "--workers", 1)
    return bare_process(name, r"accuracy ([\d.]+)", TOOLS / "text" / "one_pass", *TEXT, "--input", csv,
                        "--batch-rows", BATCH * WORKERS)


def job(options, kind, name, csv):
    """Processor time of the programs and of the broker, in seconds, and the accuracy."""
    columns, training, _ = KINDS[kind]
    with Job(options.broker, name, training) as programs:
        before = cpu_s(options.broker_pid)
        programs.produce(csv, features=columns)
        programs.serve()
        programs.wait("producer", "server", *programs.work())
        used, broker = sum(programs.cpu_s.values()), cpu_s(options.broker_pid) - before
        programs.start("watch", APPS / "Watch", *programs.common, "--summary",
                       programs.folder / "summary.json")
        programs.wait("watch")
        figures = json.loads((programs.folder / "summary.json").read_text())["progressive"]
    return used, broker, figures["accuracy"]


def run_kind(options, kind, csv, vw):
    rows = options.train_rows
    sides = {"alone": [], "wabbit": [], "job": [], "with broker": []}

    def said(side, seconds, accuracy):
        sides[side].append(rows / seconds)
        print(f"  texts, {kind}, {side}: {sides[side][-1]:,.0f} examples/s and core, "
              f"accuracy {accuracy:.3f}", flush=True)

    for turn in range(options.turns):
        name = f"texts-{kind.split()[0].replace(',', '')}-{options.stamp}-{turn}"
        said("alone", *alone(kind, f"{name}-alone", csv))
        seconds, loss = bare_process(f"{name}-vw", r"average loss = ([\d.]+)", options.python, "-m",
                                     "vowpalwabbit", "--oaa", 6, *KINDS[kind][2], "-d", vw)
        said("wabbit", seconds, 1 - loss)
        used, broker, accuracy = job(options, kind, name, csv)
        said("job", used, accuracy)
        said("with broker", used + broker, accuracy)
    unit = "examples/s and core"
    target = ">= 1" if kind != "defaults" else ""
    return [
        compared(f"one pass over text, {kind}, no Kafka, against Vowpal Wabbit", unit, sides["alone"],
                 sides["wabbit"], target),
        compared("the same by CsvProducer, ServerApp, 2 WorkerApps", unit, sides["job"],
                 sides["wabbit"]),
        compared("the same, the broker's time counted too", unit, sides["with broker"],
                 sides["wabbit"]),
    ]


def run(options):
    csv, vw = text_rows(options.train_rows, "train", vw=True)
    return [result for kind in KINDS for result in run_kind(options, kind, csv, vw)]
