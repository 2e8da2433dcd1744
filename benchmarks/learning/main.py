"""Compares Millrace's defaults with a grid of settings and with other learners. scripts/learning calls
it, and builds and installs what it needs."""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import math
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading
import time

import data_sets
import draws
import grid
import promises
import report

HERE = pathlib.Path(__file__).resolve().parent
QUICK_EVERY = 8  # of the grid's settings with --quick
# Of processor time. A peer that is written in Python needs some minutes for the flights.
LIMITS_S = {"defaults": 300, "grid": 60, "peers": 1200}


class Progress:
    """How far it is, on stderr: on a terminal a line that is redrawn, else a line for each tenth."""

    def __init__(self, name, total):
        self.name, self.total, self.done, self.out = name, max(1, total), 0, sys.stderr
        self.lock, self.told = threading.Lock(), 0
        self.terminal = self.out.isatty()

    def step(self, what):
        with self.lock:
            self.done += 1
            share = self.done / self.total
            if self.terminal:
                bar = "#" * int(30 * share)
                end = "\n" if self.done == self.total else ""
                self.out.write(f"\r\033[K{self.name} [{bar:30}] {self.done} of {self.total} runs  "
                               f"{what}{end}")
            elif int(10 * share) > self.told:
                self.told = int(10 * share)
                self.out.write(f"learning: {self.name}: {self.done} of {self.total} runs\n")
            self.out.flush()


class Runner:
    """Runs programs, each of which prints a line of JSON. Those that run are ended by stop()."""

    def __init__(self):
        self.running, self.lock, self.stopped = set(), threading.Lock(), False

    def run(self, words, limit_s):
        """What the program printed, or {"error": why not}. It may use so much processor time (what others
        do on the machine must not decide what has figures), and ten times as much of any other."""
        with self.lock:
            if self.stopped:
                return {"error": "interrupted"}
            process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
            self.running.add(process)
        with contextlib.suppress(ProcessLookupError):
            most_s = math.ceil(limit_s)
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (most_s, most_s + 1))
        try:
            out, said = process.communicate(timeout=10 * limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return {"error": f"took longer than {10 * limit_s} s"}
        finally:
            with self.lock:
                self.running.discard(process)
        if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return {"error": f"needs more than {limit_s} s of processor time"}
        if process.returncode != 0:
            last = [line for line in said.strip().split("\n") if line.strip()]
            return {"error": last[-1] if last else f"exit code {process.returncode}"}
        return json.loads(out)

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.running:
                process.kill()


def wrong(said):
    """Ends the program: wrong usage."""
    print(f"learning: {said}", file=sys.stderr)
    sys.exit(2)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learn-csv", required=True, help="the program of benchmarks/learning")
    parser.add_argument("--make-text", default="", help="the program of benchmarks/text")
    parser.add_argument("--data", default="", help="the folder of datasets/*.py")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder of the report")
    parser.add_argument("--sets", default="", help="names, separated by commas")
    parser.add_argument("--peers", default="river,vw", help="names, separated by commas, or none")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--minutes", type=float, default=40)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    sets = data_sets.all_sets(options.data, options.make_text)
    known = {each.name for each in sets}
    options.sets = [name for name in options.sets.split(",") if name]
    if strange := [name for name in options.sets if name not in known]:
        wrong(f"no set is called {', '.join(strange)}; there are: {', '.join(sorted(known))}")
    options.peers = [peer for peer in options.peers.split(",") if peer not in ("", "none")]
    if strange := [peer for peer in options.peers if peer not in promises.PEERS]:
        wrong(f"no peer is called {', '.join(strange)}; there are: {', '.join(promises.PEERS)}")
    return options, [each for each in sets if not options.sets or each.name in options.sets]


class Comparison:
    def __init__(self, options, sets):
        self.options, self.sets = options, sets
        self.runner = Runner()
        self.settings = grid.grid()[::QUICK_EVERY if options.quick else 1]
        self.results = {}
        self.drawn = {}  # of a set, of each further draw: {(kind, name): result}
        self.deadline = time.monotonic() + 60 * options.minutes

    def prepare(self):
        """Writes the sets' files."""
        for each in self.sets:
            began = time.monotonic()
            rows = self.write_set(each)
            self.results[each.name] = {"rows": rows, "about": each.about, "defaults": {}, "grid": {},
                                       "peers": {}}
            print(f"learning: {each.name}: {rows:,} rows, {time.monotonic() - began:.1f} s", file=sys.stderr)

    def write_set(self, each):
        folder = self.options.out / "data"
        rows = data_sets.write(each, folder, data_sets.QUICK_ROWS if self.options.quick else None)
        self.description(each).write_text(json.dumps(each.described()), encoding="utf-8")
        return rows

    def description(self, each):
        return self.options.out / "data" / f"{each.full_name()}.json"

    def first_jobs(self):
        """The defaults and the peers: (kind, set, name, words)."""
        for each in sorted(self.sets, key=lambda each: -self.results[each.name]["rows"]):
            for peer in ["prior", *self.options.peers]:
                yield "peers", each, peer, self.ask(each, peer)
            for setting in grid.DEFAULTS:
                yield "defaults", each, setting.name, self.learn(each, setting)

    def grid_jobs(self):
        """Where the defaults have worked. Setting by setting: what time does not suffice for is missing
        on all sets alike."""
        for setting in self.settings:
            for each in self.sets:
                if not promises.is_result(self.results[each.name]["defaults"][grid.ONE]):
                    continue
                yield "grid", each, setting.name, self.learn(each, setting)

    def draw_jobs(self):
        """Of sets that break a promise: what is compared, on further draws."""
        settings = {setting.name: setting for setting in (*grid.DEFAULTS, *self.settings)}
        count = min(2, self.options.draws) if self.options.quick else self.options.draws
        for each in self.sets:
            found = promises.broken(self.results[each.name])
            if not found or not each.can_be_drawn_again():
                continue
            self.drawn[each.name] = [{} for _ in range(count)]
            for draw in range(1, count + 1):
                other = dataclasses.replace(each, draw=draw)
                self.write_set(other)
                for kind, name in draws.needed(found):
                    if kind == "peers" and name not in self.options.peers:
                        continue
                    words = self.ask(other, name) if kind == "peers" else self.learn(other, settings[name])
                    yield kind, other, name, words

    def learn(self, each, setting):
        return [self.options.learn_csv, *each.flags(), *setting.words()]

    def ask(self, each, peer):
        return [sys.executable, "-B", HERE / "peers.py", peer, self.description(each)]

    def keep(self, kind, each, name, result):
        if each.draw:
            self.drawn[each.name][each.draw - 1][kind, name] = result
        else:
            self.results[each.name][kind][name] = result

    def run_all(self, name, jobs, may_be_late=False):
        jobs = list(jobs)
        progress = Progress(name, len(jobs))

        def one(job):
            kind, each, name, words = job
            late = may_be_late and time.monotonic() > self.deadline
            result = {"error": "left out: --minutes were over"} if late else self.runner.run(words, LIMITS_S[kind])
            if promises.is_result(result) and kind != "peers":
                result["flags"] = [str(word) for word in words[1 + len(each.flags()):]]
            progress.step(f"{each.full_name()}, {name}")
            return kind, each, name, result

        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            try:
                for done in pool.map(one, jobs):
                    self.keep(*done)
            except BaseException:
                self.runner.stop()
                pool.shutdown(cancel_futures=True)
                raise

    def about(self, seconds, done):
        lines = [f"{len(self.sets)} sets, {len(self.settings)} settings of the grid; {seconds / 60:.0f} minutes "
                 f"with {self.options.jobs} processes at a time."]
        if not done:
            lines.append("**The grid was still running when this was written.**")
        if self.options.quick:
            lines.append(f"**--quick: the first {data_sets.QUICK_ROWS:,} rows of each set at most, and every "
                         f"{QUICK_EVERY}th setting. These figures say nothing.**")
        return lines

    def write(self, seconds, done=True):
        for name, results in self.results.items():
            results["broken"] = promises.broken(results)
            judged = [draws.verdict(each, self.drawn.get(name, [])) for each in results["broken"]]
            results["judged"] = [verdict for verdict in judged if verdict is not None]
            settled = [verdict.broken for verdict in results["judged"] if verdict.word != draws.BROKEN]
            results["broken"] = [each for each in results["broken"] if each not in settled]
        self.options.out.mkdir(parents=True, exist_ok=True)
        text = report.page(self.results, self.about(seconds, done))
        (self.options.out / "report.md").write_text(text, encoding="utf-8")
        plain = {name: {**results, **{key: [dataclasses.asdict(each) for each in results[key]]
                                      for key in ("broken", "judged")}}
                 for name, results in self.results.items()}
        (self.options.out / "report.json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
        return text


def main(arguments=None):
    options, sets = parse(arguments)
    if options.list:
        for each in sets:
            print(f"{each.name:16} {' '.join(each.about.split())}")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    comparison = Comparison(options, sets)
    comparison.prepare()
    comparison.run_all("defaults and peers", comparison.first_jobs())
    # Whoever has no time for the grid has this.
    comparison.write(time.monotonic() - began, done=False)
    comparison.run_all("grid", comparison.grid_jobs(), may_be_late=True)
    comparison.run_all("further draws", comparison.draw_jobs())
    text = comparison.write(time.monotonic() - began)
    begin = text.index("## Broken promises")
    print(text[begin:text.index("## The sets")].strip())
    print(f"\n{options.out / 'report.md'} has all figures, report.json beside it all that was printed.")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever read has seen enough
        sys.stdout = None
