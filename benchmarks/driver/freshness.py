"""How long a row takes until a Predictor that follows the job answers by weights that contain it:
percentiles in milliseconds, from the time of its record in input-data.

An eventual job of one worker, with a batch a row, to which CsvProducer sends 200 rows a second,
fewer than it could train on; the Predictor (--follow) is asked every millisecond how many rows its
weights were trained on (benchmarks/kafka/model_freshness.cc, whose processor time is not counted;
the answers to it are). Once each of a

- "dense" model, which is followed by its feed of weights;
- "wide" one, and one with "embedding" rows of ids, which are followed by their checkpoints, here one
  each CHECKPOINT_S seconds: so long is what a row waits for at most, half of it on average, before
  the checkpoint is written and read;
- "slow" stream of 5 rows a second, of a dense model with the default batches, which wait a second at
  most for further rows (--batch-wait).

The floor is one hop: a bare producer that sends as many records a second, and a bare consumer
(benchmarks/kafka/bare_ping.cc). A row has three of them: to the worker, to the server and to the
Predictor. Lower is better; a percentile is that of a turn, and the table has the median of the turns.
Beside the median stands the processor time of a row: of all programs of the job, the Predictor and
the broker.
"""

import re

from common import APPS, Job, Programs, Rate, TEXT, TOOLS, compared, cpu_s, text_rows
from loop import EVENTUAL, WARM_UP_S

RATE, SLOW_RATE = 200, 5  # rows per second
SLOW_S = 60  # at least, so that there are some to measure
CHECKPOINT_S = 1
PERCENTILES = ("p50", "p99", "p99.9")
LABEL = ["--label", "label", "--classes", "1,2,3,4,5,6"]
# (A softmax of ids has no other update.)
ONLINE = ["--update", "online", "--batch-rows", "1", "--consistency", "eventual"]
# What is measured: features, how they are trained, and rows per second.
KINDS = {
    "dense": (TEXT, EVENTUAL, RATE),
    "wide": ([*LABEL, "--text", "text", "--text-buckets", "65536"], [*EVENTUAL, "--wide-above", "1000"], RATE),
    "embedding": ([*LABEL, "--ids", "text"], ONLINE, RATE),
    "slow": (TEXT, ["--consistency", "eventual"], SLOW_RATE),
}


def read(options, programs, name, measured, *words, seconds=0):
    """Starts what measures for so long at least, and waits until it has: percentiles, the median with the
    processor time that a row took those `measured`, and the broker."""
    programs.start(name, *words, "--warm-up", WARM_UP_S, "--seconds", max(seconds, options.seconds))

    def cpu_now_s():
        return sum(cpu_s(programs.running[each].pid) for each in measured) + cpu_s(options.broker_pid)

    programs.wait_for(name, "begin\n")
    used = cpu_now_s()
    programs.wait_for(name, "end\n")
    used = cpu_now_s() - used
    programs.wait(name)
    said = programs.log(name).strip().splitlines()[-1]
    found = {key: float(value) for key, value in re.findall(r"(p[\d.]+|count) ([\d.]+)", said)}
    found["p50"] = Rate(found["p50"], 1000 * used / found["count"])
    print(f"  {programs.folder.name}: {said} (ms), {found['p50'].cpu_ms:.3f} ms of processor time a row",
          flush=True)
    return found


def ours(options, name, kind, data):
    features, training, rate = KINDS[kind]
    with Job(options.broker, name, training, workers=1) as job:
        job.produce(data, "--rate", rate, features=features)
        job.serve("--checkpoint-interval", CHECKPOINT_S)
        job.work(1)
        job.wait_for("worker-0", "\n")  # its topics are there
        job.start("predictor", APPS / "Predictor", "--follow", "--brokers", options.broker, "--job",
                  name, "--listen", "127.0.0.1:0")
        job.wait_for("predictor", "listening on ")
        port = re.search(r"listening on [\d.]+:(\d+)", job.log("predictor"))[1]
        job.wait_for("predictor", "the first weights of the job")
        return read(options, job, "freshness", ["producer", "server", "worker-0", "predictor"],
                    TOOLS / "kafka" / "model_freshness", "--brokers", options.broker, "--job", name,
                    "--workers", 1, "--port", port, seconds=SLOW_S if rate == SLOW_RATE else 0)


def floor(options, name):
    with Programs(name, options.broker) as programs:
        # (Those of a record: it sends and reads as the others do.)
        return read(options, programs, "ping", ["ping"], TOOLS / "kafka" / "bare_ping", "--brokers",
                    options.broker, "--topic", f"{name}.ping", "--rate", RATE)


def run(options):
    # As many as are sent until all has been measured, and while the last rows are waited for.
    data = text_rows(int(RATE * (2 * WARM_UP_S + options.seconds + 90)), "freshness",
                     "--min-words", "1", "--max-words", "3")
    mine = {kind: [] for kind in KINDS}
    floors = []
    floor(options, f"freshness-warm-up-{options.stamp}")
    for turn in range(options.turns):
        for kind in KINDS:
            name = f"freshness-{kind}-{options.stamp}-{turn}"
            mine[kind].append(ours(options, name, kind, data))
        name = f"freshness-floor-{options.stamp}-{turn}"
        floors.append(floor(options, name))
    return [compared(f"{kind}, {part}", "ms", [turn[part] for turn in mine[kind]],
                     [turn[part] for turn in floors], target(kind, part))
            for kind in KINDS for part in PERCENTILES]


def target(kind, part):
    """Of ours, not of the ratio: what a dense model is to reach on one machine, and a slow stream."""
    limits = {"dense": {"p50": 20, "p99": 100}, "slow": {"p50": 1000}}
    limit = limits.get(kind, {}).get(part)
    return f"{limit} ms" if limit else ""
