"""What has been measured. Pure."""

import dataclasses

import spread


@dataclasses.dataclass
class Measured:
    """A case's runs, those that failed apart. `figures`: of each run, by name; `series`: of each run, lists
    by name, for plots."""

    params: dict
    figures: list = dataclasses.field(default_factory=list)
    series: list = dataclasses.field(default_factory=list)
    errors: list = dataclasses.field(default_factory=list)

    def spreads(self):
        """Least, median and most of each figure."""
        names = dict.fromkeys(name for run in self.figures for name in run)
        return {name: spread.spread([run.get(name) for run in self.figures]) for name in names}

    def median_run(self, name):
        """The number of the run whose figure `name` is the median of all; None: no run has it."""
        have = sorted((run[name], i) for i, run in enumerate(self.figures) if run.get(name) is not None)
        return have[(len(have) - 1) // 2][1] if have else None


class Results:
    """By section, set and case, in the order in which cases were planned."""

    def __init__(self):
        self.all = {}

    def add(self, step, figures=None, series=None, error=None):
        key = (step.section, step.set, step.case.name)
        measured = self.all.setdefault(key, Measured(step.case.params))
        if error is not None:
            measured.errors.append(error)
        else:
            measured.figures.append(figures)
            measured.series.append(series or {})

    def of(self, section, name):
        """The cases of a section and a set that have figures: a Measured by name."""
        return {case: measured for (its_section, its_set, case), measured in self.all.items()
                if its_section == section and its_set == name and measured.figures}

    def errors(self):
        """As sentences."""
        return [f"{section}, {name}: {case}: {error}" for (section, name, case), measured in self.all.items()
                for error in measured.errors]

    def as_json(self):
        return [{"section": section, "set": name, "case": case, **dataclasses.asdict(measured),
                 "spreads": measured.spreads()} for (section, name, case), measured in self.all.items()]
