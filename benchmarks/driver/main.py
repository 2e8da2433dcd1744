"""Runs one benchmark by name, or writes a page of those that were run. scripts/bench calls it, and
starts what it needs."""

import argparse
import importlib
import signal
import sys
import time

import common
import page


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", choices=common.NAMES)
    parser.add_argument("--html", help="write a page of all that build/bench has here")
    parser.add_argument("--broker", help="HOST:PORT of a Kafka that nobody else uses")
    parser.add_argument("--broker-pid", type=int, help="its process, whose time is counted")
    parser.add_argument("--python", help="train: a Python that has the flights and vowpalwabbit")
    parser.add_argument("--turns", type=int, default=5, help="how often each side is measured")
    parser.add_argument("--seconds", type=float, help="of rounds: length of a measurement")
    parser.add_argument("--dense-weights", type=int, help="dense: only the model of so many")
    parser.add_argument("--recovery-rows", type=int, help="recovery: only a table of so many")
    parser.add_argument("--ingest-rows", type=int, default=500_000)
    parser.add_argument("--train-rows", type=int, default=400_000)
    parser.add_argument("--flights-rows", type=int, default=400_000)
    parser.add_argument("--compression-rows", type=int, default=200_000)
    parser.add_argument("--features-rows", type=int, default=200_000)
    parser.add_argument("--classes-rows", type=int, default=100_000)
    parser.add_argument("--flights", help="rows: the CSV of datasets/flights.py")
    parser.add_argument("--rows-epochs", type=int, default=1, help="rows: how often it is streamed")
    parser.add_argument("--master-kills", type=int, default=20, help="master: of each kind")
    parser.add_argument("--memory-rows", type=int, default=1_000_000)
    options = parser.parse_args()
    # As an exception, so that what was started is ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Job names are used once: what an interrupted run left in the broker is no concern of ours.
    options.stamp = time.strftime("%H%M%S")
    common.WORK.mkdir(parents=True, exist_ok=True)
    if options.name:
        benchmark = importlib.import_module(options.name)
        options.seconds = options.seconds or getattr(benchmark, "SECONDS", 8)
        common.report(options.name, benchmark.run(options))
    if options.html:
        print(f"{options.html}: {', '.join(page.write(options.html)) or 'no benchmark has been run'}")


if __name__ == "__main__":
    main()
