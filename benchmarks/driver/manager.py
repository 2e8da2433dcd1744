"""Trainers of one's own (docs/parameter-manager.md) that push and pull, against the bare loop of the same design.

A step changes all numbers of one parameter and reads it (6,150, 100 thousand and a million floats), or changes 1,000
random rows of 16 floats and reads 1,000 others, of a table of 100 thousand. Nothing is computed. One trainer, and four
in two processes, of a sequential job with one shard. Answers through Kafka, and straight (docs/straight-answers.md). Of
each

- "rounds": per second, with the processor time of one, all processes and the broker together;
- "p50", "p99", "p99.9": of a round trip of trainer 0, from its Update until it has the next values, in milliseconds.
  Of these lower is better.

The floors (benchmarks/kafka/bare_loop.cc) move as many bytes between as many processes, in which each trainer has
clients of its own, as ours have.

- Through Kafka: gradients go to a topic and answers to another one; where all trainers get the same, they are sent once.
- Direct: gradients go to a topic, since nothing counts before it is in a log, and answers by a stream of bare gRPC.

Both do less than a server must. They decode, check and compute nothing: floats are not added up, and only those of rows
are kept, in an unordered map without an optimizer's state. They save nothing. (Ours writes what has changed to
`parameters` and to RocksDB, which may take a quarter of the time, docs/checkpoint-and-recovery.md, and the broker takes
those records, too: all of that is in its processor time.) A floor's trainer knows one server, repeats nothing, and reads
one way only: by streams it waits on the socket itself, where ours reads `weights` as well, so that a thread of gRPC's
has to wake it. And ours publishes direct weights to `weights`, too, for those who follow the job.

Other designs have lower floors: one in which the trainers of a process share their clients, so that what is the same for
all comes to it once; and one whose gradients do not go through a log, in which no round trip waits for a broker, and in
which a gradient is lost when its server dies. (A step more in flight, --pipeline, regains time in jobs that are not
sequential. That is not measured here.)
"""

import re
import time

import loop
from common import Job, Programs, Rate, TOOLS, compared
from latency import PERCENTILES

SECONDS = 4  # of a measurement, if --seconds does not say so
WARM_UP_S = 2  # a stream is found within half a second
TRAINERS = (1, 4)
LEAST = {"Kafka": ">= .8", "direct": ">= .7"}  # rounds of ours to the floor's
TABLE = 100_000  # all rows are there before the warm-up is over
ROWS = ["--ids", 1_000, "--rows", TABLE]
# By name: flags of ServerApp, of the trainers, and of the floor.
KINDS = {
    **{f"{floats:,} floats": (["--optimizer", "sgd"], ["--floats", floats], ["--once", "--bytes", 4 * floats])
       for floats in (6_150, 100_000, 1_000_000)},
    "1,000 rows of 16": (["--optimizer", "adagrad"], ROWS, ROWS),
}


def measured(options, programs, name, who):
    """Of worker 0, which runs in `who`: rounds per second, and the percentiles of one in milliseconds."""
    programs.wait_for(who, "begin\n")
    cpu_s = programs.cpu_now_s(options.broker_pid)
    # To look for the end is work, too: fifty times a second it made one round trip of twenty twice as long.
    time.sleep(0.9 * options.seconds)
    programs.wait_for(who, "rounds/s ")
    cpu_s = programs.cpu_now_s(options.broker_pid) - cpu_s
    said = re.search(r"^count (\d+) (.*)\nrounds/s (.*)$", programs.log(who), re.M)
    rate = Rate(said[3], cpu_s * 1000 / int(said[1]))
    trips = {part: float(ms) for part, ms in re.findall(r"(p[\d.]+) ([\d.]+)", said[2])}
    print(f"  {name}: {rate:.1f} rounds/s, {rate.cpu_ms:.3f} ms of processor time a round, "
          f"{', '.join(f'{part} {trips[part]:.3f}' for part in PERCENTILES)} ms", flush=True)
    return rate, trips


def timing(options):
    return ["--warm-up", WARM_UP_S, "--seconds", options.seconds]


def ours(options, name, kind, trainers, way):
    of_server, of_trainers, _ = KINDS[kind]
    with Job(options.broker, name, ["--model", "external", *of_server, "--answers", way.lower()], trainers) as job:
        job.serve()
        processes = min(2, trainers)
        for i in range(processes):
            job.start(f"trainers-{i}", TOOLS / "client" / "trainers", "--brokers", options.broker, "--job", name,
                      "--trainers", trainers, "--first", i, "--every", processes, *of_trainers, *timing(options))
        figures = measured(options, job, name, "trainers-0")
        said = job.log("trainers-0")
        is_direct = "answers come straight from" in said and "the stream of answers" not in said
        if is_direct != (way == "direct"):
            raise RuntimeError(f"{name}: its answers have not come as they should\n{said[-2000:]}")
    return figures


def floor(options, name, kind, trainers, way):
    *_, flags = KINDS[kind]
    with Programs(name, options.broker) as programs:
        loop.start_floor(options, programs, name, *flags, *(["--direct"] if way == "direct" else []),
                         workers=trainers, work=["--apart", *timing(options)])
        figures = measured(options, programs, name, "worker-0")
    return figures


def both(options, name, *case):
    """A side after the other: what they measured."""
    return ours(options, f"{name}-ours", *case), floor(options, f"{name}-floor", *case)


def lines(kind, trainers, way, turns):
    of = f"{kind}, {trainers} trainer{'s' * (trainers > 1)}, {way}"
    rates = [[rate for rate, _ in side] for side in zip(*turns)]
    results = [compared(f"{of}: rounds", "rounds/s", *rates, target=LEAST[way])]
    is_bounded = (kind, trainers, way) == ("6,150 floats", 1, "direct")
    for part in PERCENTILES:
        trips = [[trips[part] for _, trips in side] for side in zip(*turns)]
        results.append(compared(f"{of}: {part}", "ms", *trips,
                                target="<= 1 ms" if is_bounded and part in ("p50", "p99") else ""))
    return results


def run(options):
    cases = [(kind, trainers, way) for kind in KINDS for trainers in TRAINERS for way in LEAST]
    # Of the broker, which takes its time to learn what to compile.
    both(options, f"manager-warm-up-{options.stamp}", "6,150 floats", 4, "Kafka")
    turns = {case: [] for case in cases}
    for turn in range(options.turns):
        for i, case in enumerate(cases):
            turns[case].append(both(options, f"manager-{i}-{options.stamp}-{turn}", *case))
    return [line for case in cases for line in lines(*case, turns[case])]
