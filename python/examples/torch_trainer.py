"""A model of PyTorch whose parameters are on Millrace's servers (docs/parameter-manager.md), and whose optimizer is
theirs: it learns the digits of datasets/digits.py, of which every tenth row is kept for a test.

Usage: torch_trainer.py BROKERS JOB TRAINERS TRAINER STEPS FILE.csv
"""

import sys

import numpy
import torch

import millrace

BATCH = 32


def main(brokers: str, job: str, trainers: int, trainer: int, steps: int, file: str) -> None:
    torch.set_num_threads(1)  # sums in one order, so the same bytes each time
    torch.manual_seed(1)  # all trainers put the same first values
    rows = torch.from_numpy(numpy.loadtxt(file, numpy.float32, delimiter=",", skiprows=1))
    is_test = torch.arange(len(rows)) % 10 == 9
    digits, pixels = rows[~is_test, 0].long(), rows[~is_test, 1:] / 16

    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
    loss = torch.nn.CrossEntropyLoss(reduction="sum")
    manager = millrace.ParameterManager(job, brokers=brokers, trainers=trainers, trainer=trainer)
    for name, tensor in model.named_parameters():
        param = manager.register(name, tensor.shape)
        manager.put(param, tensor.detach())
        # From here on get() reads into the model, and backward() adds to what update() sends.
        tensor.data, tensor.grad = torch.from_numpy(param.data), torch.from_numpy(param.grad)

    while (step := manager.steps()) < steps:
        for param in manager:
            manager.get(param)
        batch = ((step * BATCH + torch.arange(BATCH)) * trainers + trainer) % len(digits)
        scores = model(pixels[batch])
        model.zero_grad(set_to_none=False)
        loss(scores, digits[batch]).backward()
        for param in manager:
            manager.update(param)
        manager.step(BATCH)
        print(f"step {step}: {(scores.argmax(1) == digits[batch]).sum()} of {BATCH}", flush=True)

    for param in manager:
        manager.collect(param)
    right = (model(rows[is_test, 1:] / 16).argmax(1) == rows[is_test, 0]).float().mean()
    print(f"test rows: {right:.1%} are right", flush=True)
    manager.leave()


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    brokers, job, trainers, trainer, steps, file = sys.argv[1:]
    main(brokers, job, int(trainers), int(trainer), int(steps), file)
