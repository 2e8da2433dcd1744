"""Sequential rounds with two replicas of every shard, against the same job without.

Three ServerApps with a shard each, two WorkerApps with two logical workers each. With --replicas 2
each server also reads the checkpoints of the other two and writes them to stores of its own; nothing
waits for it, so what it costs is processor time, disk and the broker's reads (which on a machine of
few cores is taken from the training). The floor is the same job with --replicas 0, in turns. What
is not seen here: where checkpoints take long, those of a job with replicas are rarer
(tasks/checkpoint_schedule.h), so that a killed server has more to learn again.

Dense as in `loop`, with every weight in each update; dense with a million weights, as in `dense`;
and embedding rows, as in `embedding`, all of them in memory, for as long as several checkpoints take.
"""

import dense
import embedding
import loop
from common import Job, TEXT, compared, text_rows
from loop import WARM_UP_S, job_rounds, lasting

TARGET = 0.8
SERVERS = 3
LARGE = 1_000_000


def rounds(name, case, replicas):
    options, training, features, data, begin, flags = case
    name = f"{name}-{replicas}"
    with Job(options.broker, name, training) as job:
        job.produce(data, features=features)
        job.wait("producer")
        servers = job.serve("--replicas", replicas, *flags, servers=SERVERS)
        return job_rounds(job, options, begin=begin, servers=servers)


def cases(options):
    """By name: options, training, features, data, rounds that do not count, flags of the servers."""
    longer = lasting(options, embedding.SEVERAL_CHECKPOINTS_S)
    seconds = WARM_UP_S + options.seconds
    return {
        "6,150 dense weights": (
            options, loop.DENSE, TEXT,
            text_rows(int(8000 * seconds), "words", "--min-words", "1", "--max-words", "3"), 0, []),
        "1 million dense weights": (
            options, dense.TRAINING, dense.features(LARGE),
            dense.numeric_rows(LARGE, int(240 * seconds)), 0, []),
        "embedding rows": (
            longer, embedding.TRAINING, embedding.FEATURES, embedding.random_rows(longer),
            embedding.BIRTH_ROUNDS, ["--embedding-cache", 512]),
    }


def run(options):
    results = []
    loop.floor(options, f"replication-warm-up-{options.stamp}")  # of the broker
    for i, (what, case) in enumerate(cases(options).items()):
        rates, floors = [], []
        for turn in range(options.turns):
            name = f"replication-{i}-{options.stamp}-{turn}"
            rates.append(rounds(name, case, 2))
            floors.append(rounds(name, case, 0))
        results.append(compared(f"sequential rounds, 2 replicas, {what}", "rounds/s", rates, floors,
                                f">= {TARGET}"))
    return results
