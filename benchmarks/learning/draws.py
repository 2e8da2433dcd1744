"""Whether what breaks a promise is more than the chance of the rows: a set that can be made anew, with
other rows or in another order, is, and the settings that are compared run on each of these draws."""

import dataclasses
import math
import statistics

import promises

# A shortfall is more than chance if it is so many times the standard error of its mean.
SURE = 2

BROKEN, CHANCE, KEPT = "broken", "not more than chance", "kept"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Of a promise that the first draw broke: by how much it was missed on the others, in the mean."""
    broken: promises.Broken
    draws: int
    mean: float
    error: float  # standard error of the mean

    @property
    def word(self):
        if self.mean <= 0:
            return KEPT
        return BROKEN if self.mean > SURE * self.error else CHANCE

    def told(self):
        return f"missed by {self.mean:+.4f} ± {self.error:.4f} in the mean of {self.draws} other draws"


def needed(found):
    """(kind, name) of the runs that tell of these broken promises."""
    runs = set()
    for each in found:
        runs.add(("defaults", each.ours))
        runs.update((each.kind, name) for name in each.others)
    return sorted(runs)


def shortfall(broken, results):
    """By how much these results miss the promise; below 0: they keep it. None: that cannot be told."""
    ours = results.get(("defaults", broken.ours))
    others = [results.get((broken.kind, name)) for name in broken.others]
    if not promises.has_part(ours, broken.part):
        return None
    own = ours[broken.part]
    if broken.measure is None:  # against the prior
        return promises.loss(own) - promises.prior_loss(own) - broken.allowed * promises.unit(own)
    values = [other[broken.part][broken.measure] for other in others
              if promises.has_part(other, broken.part) and other[broken.part][broken.measure] is not None]
    if not values or own[broken.measure] is None:
        return None
    return max(values) - own[broken.measure] - broken.allowed


def verdict(broken, draws):
    """`draws`: of each draw {(kind, name): result}. None: too few of them can be compared."""
    missed = [value for value in (shortfall(broken, results) for results in draws) if value is not None]
    if len(missed) < 2:
        return None
    return Verdict(broken, len(missed), statistics.fmean(missed), statistics.stdev(missed) / math.sqrt(len(missed)))
