"""What is to be measured, in which order, and what of it a budget of time suffices for. Pure."""

import collections
import dataclasses


@dataclasses.dataclass(frozen=True)
class Case:
    """One thing to be measured; `params` is what its section needs to know, `seconds` about how long one
    run takes on two idle cores."""

    name: str
    params: dict
    seconds: float


@dataclasses.dataclass(frozen=True)
class Step:
    """One run of a case."""

    section: str
    set: str
    case: Case
    run: int  # from 1

    def label(self):
        return f"{self.section}, {self.set}: {self.case.name}, run {self.run}"


def steps(cases, runs):
    """`cases`: (section, set, Case) in the order of the report. All of them once, then all of them again:
    if time is short, figures have fewer runs, and a machine that is slow for some minutes does not make
    one case look slow."""
    return [Step(section, name, case, run) for run in range(1, runs + 1) for section, name, case in cases]


def seconds(some):
    return sum(step.case.seconds for step in some)


def fitting(some, budget_s):
    """How many of these, in their order, are likely to begin within the budget (None: all)."""
    if budget_s is None:
        return len(some)
    used = 0.0
    for count, step in enumerate(some):
        if used >= budget_s:
            return count
        used += step.case.seconds
    return len(some)


def clock(some_seconds):
    """As minutes and seconds."""
    whole = round(some_seconds)
    return f"{whole // 60}:{whole % 60:02}"


def announced(some, budget_s):
    """The plan, as lines for a reader."""
    by_section = collections.Counter()
    counts = collections.Counter()
    for step in some:
        by_section[step.section] += step.case.seconds
        counts[step.section] += 1
    width = max((len(name) for name in by_section), default=0)
    lines = [f"{name:{width}}  {counts[name]:4} runs, about {clock(by_section[name]):>6}" for name in by_section]
    total = f"about {clock(seconds(some))} (minutes:seconds) on two idle cores"
    if budget_s is None:
        return [*lines, f"all: {total}, no limit"]
    lines.append(f"all: {total}; what has not begun after {clock(budget_s)} is left out")
    if (count := fitting(some, budget_s)) < len(some):
        lines.append(f"likely to be left out: {len(some) - count} of {len(some)} runs, from "
                     f"'{some[count].label()}' on")
    return lines


def left_out(some):
    """What was not measured, as sentences: of each case how many runs."""
    runs = collections.Counter((step.section, step.set, step.case.name) for step in some)
    return [f"{section}, {name}: {case}: {count} {'run' if count == 1 else 'runs'}"
            for (section, name, case), count in runs.items()]


def remaining(todo, done):
    """Seconds that `todo` will still take. `done`: (Step, its seconds) so far: what a case has taken is
    believed; of others, the estimate, corrected by how wrong the estimates have been on the whole."""
    taken = {}
    for step, its_seconds in done:
        taken[step.section, step.set, step.case.name] = its_seconds
    planned = sum(step.case.seconds for step, _ in done)
    factor = sum(its_seconds for _, its_seconds in done) / planned if planned else 1.0
    return sum(taken.get((step.section, step.set, step.case.name), factor * step.case.seconds)
               for step in todo)
