"""Updates per second by the number of logical workers, 1 to 64, in two WorkerApps.

A batch is one row and the model that of `loop`, so next to nothing is computed: what is measured is
what each worker more costs the server, the broker and the two processes that host them. The floor is
that of `loop`, "weights once", with as many workers: a round is an update of each.
"""

import loop
from common import Rate, compared, text_rows
from loop import SPARSE, WARM_UP_S

WORKERS = (1, 2, 4, 8, 16, 32, 64)
MOST_UPDATES = 40_000  # in a second, more than any machine has
KINDS = {"sequential": SPARSE, "eventual": [*SPARSE, "--consistency", "eventual"]}


def updates(rounds, workers):
    return Rate(rounds * workers, rounds.cpu_ms / workers)


def run(options):
    data = text_rows(int(MOST_UPDATES * (WARM_UP_S + options.seconds)), "words",
                     "--min-words", "1", "--max-words", "3")
    loop.warm_up(options, "scaling", data)
    rates = {(kind, workers): [] for kind in KINDS for workers in WORKERS}
    floors = {workers: [] for workers in WORKERS}
    for turn in range(options.turns):
        for workers in WORKERS:
            tag = f"{workers}-{options.stamp}-{turn}"
            for kind, training in KINDS.items():
                name = f"scaling-{kind}-{tag}"
                rounds = loop.ours(options, name, training, data, workers)
                rates[kind, workers].append(updates(rounds, workers))
            rounds = loop.floor(options, f"scaling-floor-{tag}", "--once", workers=workers)
            floors[workers].append(updates(rounds, workers))
    return [compared(f"{kind}, {workers} workers", "updates/s", rates[kind, workers],
                     floors[workers], "", kind, workers)
            for kind in KINDS for workers in WORKERS]
