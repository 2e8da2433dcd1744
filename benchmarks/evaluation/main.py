"""Writes the evaluation report. scripts/evaluate calls it, and builds and installs what it needs."""

import argparse
import json
import os
import pathlib
import shutil
import signal
import sys
import time
import traceback

import blocks
import broker
import page
import plan
import plots
import programs
import report
import sets
from job import Bench, Settings
from results import Results

MINUTES = {sets.QUICK: None, sets.NORMAL: 60, sets.FULL: None}
RUNS = {sets.QUICK: 2, sets.NORMAL: 3, sets.FULL: 5}


def say(text):
    print(f"evaluate: {text}", file=sys.stderr, flush=True)


def wrong(said):
    """Ends the program: wrong usage."""
    say(said)
    sys.exit(2)


def names(text, known, what):
    """Of a list separated by commas, in the order of `known`; all, if it is empty."""
    chosen = [name for name in text.split(",") if name]
    if strange := [name for name in chosen if name not in known]:
        wrong(f"no {what} is called {', '.join(strange)}; there are: {', '.join(known)}")
    return [name for name in known if not chosen or name in chosen]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--apps", required=True, type=pathlib.Path, help="the folder of Millrace's programs")
    parser.add_argument("--data", required=True, type=pathlib.Path, help="the folder of datasets/*.py")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder of the report")
    parser.add_argument("--sets", default="")
    parser.add_argument("--sections", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--plan", action="store_true", help="say what would be done, and end")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--runs", type=int)
    options = parser.parse_args(arguments)
    if options.quick and options.full:
        wrong("--quick and --full exclude each other")
    options.size = sets.QUICK if options.quick else sets.FULL if options.full else sets.NORMAL
    options.runs = options.runs or RUNS[options.size]
    options.minutes = options.minutes or MINUTES[options.size]
    options.sections = names(options.sections, list(report.SECTIONS), "section")
    wanted = names(options.sets, sets.NAMES, "set")
    have = sets.available(options.data)
    if missing := [name for name in wanted if name not in have and name in options.sets.split(",")]:
        wrong(f"not prepared: {', '.join(missing)}; scripts/evaluate --help says how")
    options.sets = [name for name in wanted if name in have]
    return options


def machine():
    """The processors, in words."""
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split("\n"):
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{len(os.sched_getaffinity(0))} processors ({model}), load {os.getloadavg()[0]:.1f} at the start"


class Evaluation:
    def __init__(self, options):
        self.options, self.results, self.chosen = options, Results(), []
        self.began, self.done, self.todo = time.monotonic(), [], []
        self.machine = machine()
        profile = "quick" if options.size == sets.QUICK else "steady"
        keeping = broker.Broker(options.out / "kafka-cost", profile, broker.KEEPS_ALL)
        # What is short writes little, and one broker will do for all of it.
        plain = keeping if options.size == sets.QUICK else broker.Broker(options.out / "kafka", profile)
        self.brokers = [plain, keeping]
        self.benches = {each: Bench(options.apps, each, options.out / "state" / each.folder.name)
                        for each in self.brokers}
        self.warm = set()

    def prepare(self):
        for name in self.options.sets:
            began = time.monotonic()
            each = sets.make(name, self.options.data, self.options.out / "data", self.options.size)
            self.chosen.append(each)
            say(f"{name}: {each.rows:,} rows, {time.monotonic() - began:.1f} s")
        cases = [(name, each.name, case) for name in self.options.sections for each in self.chosen
                 for case in report.SECTIONS[name].cases(each, self.options.size)]
        self.todo = plan.steps(cases, self.options.runs)

    def budget_s(self):
        return None if self.options.minutes is None else 60 * self.options.minutes

    def run(self):
        by_name = {each.name: each for each in self.chosen}
        total = len(self.todo)
        while self.todo:
            if self.budget_s() is not None and time.monotonic() - self.began > self.budget_s():
                say(f"the time is over; {len(self.todo)} of {total} runs are left out")
                break
            step = self.todo[0]
            say(f"{len(self.done) + 1} of {total}, {plan.clock(time.monotonic() - self.began)} of about "
                f"{self.end_text()}: {step.label()}")
            began = time.monotonic()
            self.measure(step, by_name[step.set])
            self.todo.pop(0)
            self.done.append((step, time.monotonic() - began))

    def end_text(self):
        end = time.monotonic() - self.began + plan.remaining(self.todo, self.done)
        limit = self.budget_s()
        return plan.clock(end if limit is None else min(end, limit))

    def measure(self, step, each):
        module = report.SECTIONS[step.section]
        bench = self.benches[self.brokers[step.section == "cost"]]
        try:
            if bench not in self.warm and step.case.params.get("learner", "millrace") == "millrace":
                self.warm.add(bench)
                # A JVM compiles what it is asked for first; no figure should bear that.
                bench.run(Settings(sets.first_rows(each, min(each.rows, 2000)), each.flags()))
            figures, series = module.measure(bench, each, step.case.params)
            self.results.add(step, figures, series)
        except programs.Failed as failed:
            self.fail(step, str(failed))
        except Exception as error:  # whatever it is, it must not cost an hour's other figures
            traceback.print_exc()
            self.fail(step, f"{type(error).__name__}: {error}")

    def fail(self, step, why):
        say(f"failed: {step.label()}: {why}")
        self.results.add(step, error=why)

    def write(self, interrupted=False):
        """Writes what there is; returns whether any case has figures."""
        out = self.options.out
        left_out, errors = plan.left_out(self.todo), self.results.errors()
        sections = list(report.sections(self.chosen, self.results, self.options.sections))
        if missing := list(report.missing(left_out, errors)):
            sections.append(("What is missing", missing))
        pictures = self.draw(sections)
        about = report.about(self.options, self.machine, (time.monotonic() - self.began) / 60, interrupted)
        (out / "report.html").write_text(page.as_html(report.TITLE, about, sections, pictures), encoding="utf-8")
        (out / "report.md").write_text(page.markdown(report.TITLE, about, sections, pictures), encoding="utf-8")
        plain = {"about": about, "left_out": left_out, "errors": errors, "measured": self.results.as_json(),
                 "sections": [{"title": title, "blocks": [blocks.as_json(block) for block in its_blocks]}
                              for title, its_blocks in sections]}
        (out / "report.json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
        return bool(self.results.all) and len(errors) < len(self.done)

    def draw(self, sections):
        folder = self.options.out / "plots"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        pictures = {}
        for _, its_blocks in sections:
            for block in its_blocks:
                if isinstance(block, blocks.Plot) and (picture := plots.draw(block)):
                    pictures[block.name] = picture
                    (folder / f"{block.name}.png").write_bytes(picture)
        return pictures

    def end(self):
        for each in self.brokers:
            each.end()
        shutil.rmtree(self.options.out / "state", ignore_errors=True)


def main(arguments=None):
    options = parse(arguments)
    # Both raise KeyboardInterrupt once; what is written then is not to be interrupted again.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    evaluation = Evaluation(options)
    interrupted = False
    try:
        evaluation.prepare()
        for line in plan.announced(evaluation.todo, evaluation.budget_s()):
            say(line)
        if options.plan:
            return 0
        evaluation.run()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        evaluation.end()
    good = evaluation.write(interrupted)
    print(f"{options.out / 'report.html'} (report.md, report.json and plots/ beside it)")
    if interrupted:
        say("interrupted; what had been measured is in the report")
        return 130
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
