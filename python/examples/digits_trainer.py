"""A trainer of one's own whose parameters are on Millrace's servers (docs/parameter-manager.md): a network of two
layers, in NumPy, learns the digits of datasets/digits.py.

Usage: digits_trainer.py BROKERS JOB TRAINERS TRAINER STEPS FILE.csv
"""

import sys

import numpy

import millrace

BATCH = 32


def main(brokers: str, job: str, trainers: int, trainer: int, steps: int, file: str) -> None:
    rows = numpy.loadtxt(file, numpy.float32, delimiter=",", skiprows=1)
    digits, pixels = rows[:, 0].astype(int), rows[:, 1:] / 16
    manager = millrace.ParameterManager(job, brokers=brokers, trainers=trainers, trainer=trainer)
    hidden, hidden_bias = manager.register("hidden", (64, 32)), manager.register("hidden bias", 32)
    out, out_bias = manager.register("out", (32, 10)), manager.register("out bias", 10)
    random = numpy.random.default_rng(1)
    for param in manager:
        manager.put(param, random.uniform(-0.25, 0.25, param.data.shape))
    while (step := manager.steps()) < steps:
        for param in manager:
            manager.get(param)
        batch = ((step * BATCH + numpy.arange(BATCH)) * trainers + trainer) % len(rows)
        x, y = pixels[batch], digits[batch]
        h = numpy.tanh(x @ hidden.data + hidden_bias.data)
        scores = h @ out.data + out_bias.data
        wrong = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        wrong /= wrong.sum(axis=1, keepdims=True)
        wrong[numpy.arange(BATCH), y] -= 1
        back = wrong @ out.data.T * (1 - h * h)
        for param, gradient in zip(manager, (x.T @ back, back.sum(0), h.T @ wrong, wrong.sum(0)), strict=True):
            manager.update(param, gradient)
        manager.step(BATCH)
        print(f"step {step}: {(scores.argmax(axis=1) == y).sum()} of {BATCH}", flush=True)
    manager.leave()


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    brokers, job, trainers, trainer, steps, file = sys.argv[1:]
    main(brokers, job, int(trainers), int(trainer), int(steps), file)
