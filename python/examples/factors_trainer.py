"""A trainer of one's own with embedding tables on Millrace's servers (docs/parameter-manager.md): matrix factorisation,
in NumPy. Users rate items; a rating is the product of the user's factors and the item's, and some noise.

Usage: factors_trainer.py BROKERS JOB TRAINERS TRAINER STEPS FACTORS.npy
"""

import sys
from typing import Any

import numpy

import millrace

USERS, ITEMS, FACTORS, BATCH = 500, 300, 4, 64


def main(brokers: str, job: str, trainers: int, trainer: int, steps: int, file: str) -> None:
    manager = millrace.ParameterManager(job, brokers=brokers, trainers=trainers, trainer=trainer)
    mean = manager.register("mean", handler="sgd", learning_rate_multiplier=0.1)
    users = manager.register_table("users", FACTORS, scale=0.5)
    items = manager.register_table("items", FACTORS, scale=0.5)
    manager.put(mean, 0)
    truth = numpy.random.default_rng(1)
    of_users, of_items = truth.normal(size=(USERS, FACTORS)), truth.normal(size=(ITEMS, FACTORS))

    def batch_of(step: int) -> tuple[Any, Any, Any]:
        """The users, the items and the ratings of this trainer's step."""
        random = numpy.random.default_rng((step, trainer))
        u, i = random.integers(0, USERS, BATCH), random.integers(0, ITEMS, BATCH)
        return u, i, 3 + (of_users[u] * of_items[i]).sum(1) + random.normal(0, 0.1, BATCH)

    while (step := manager.steps()) < steps:
        u, i, rating = batch_of(step)
        manager.get(mean)
        of_u, of_i = manager.get_rows(users, u), manager.get_rows(items, i)
        wrong = (mean.data + (of_u * of_i).sum(1) - rating)[:, None]
        manager.update(mean, wrong.sum())
        manager.update_rows(users, wrong * of_i)  # who is there twice gets the sum
        manager.update_rows(items, wrong * of_u)
        next_users, next_items, _ = batch_of(step + 1)
        manager.want_rows(users, next_users)  # the answer to this step brings them
        manager.want_rows(items, next_items)
        manager.step(BATCH)
        print(f"step {step}: {(wrong**2).mean():.4f}", flush=True)
    factors = [manager.collect_rows(users, range(USERS)).copy(), manager.get_rows(items, range(ITEMS))]
    numpy.save(file, numpy.concatenate(factors))
    manager.leave()


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    brokers, job, trainers, trainer, steps, file = sys.argv[1:]
    main(brokers, job, int(trainers), int(trainer), int(steps), file)
