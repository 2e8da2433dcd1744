"""What is promised of the defaults on every set, and whether a set's results keep it.

Log loss and quality are held against others on all rows, and on the last fifth where that has
enough rows to tell.
"""

import dataclasses

import grid

PARTS = ("whole", "last_fifth")
# A last fifth of fewer rows says little: its accuracy is known to some 3 %.
FEWEST_ROWS = 1000
# A stream must have so many rows for four workers to be as good as one.
FEWEST_FOR_FOUR = 20_000
PRIOR_SLACK = .005
QUALITY_SLACK = .01
RMSE_SLACK = .005  # of the mean's, for a regression
EQUAL = .0005  # figures are compared to three places
# Something has been learnt when a loss is so far below the prior's, or such a part of it for an RMSE.
LEARNT = .001
PEERS = ("river", "vw")
# Of which the prior's promises are checked, and which the report shows.
DEFAULTS = (grid.AS_STARTED, grid.ONE, grid.FOUR, grid.FOUR_BY_256)
# What is held against the grid and the peers: what a user gets, and one worker.
HELD_AGAINST_OTHERS = (grid.AS_STARTED, grid.ONE)


@dataclasses.dataclass(frozen=True)
class Broken:
    promise: str
    part: str
    detail: str
    ours: str  # the setting that breaks it
    measure: str | None = None  # that is too low; None: the loss is too high
    kind: str = "defaults"  # what it is held against: a setting, or "grid" or "peers"
    others: tuple = ()  # their names
    allowed: float = 0  # by how much it may be worse


def measures(part):
    """The figures that say how good a model is; higher is better."""
    if "rmse" in part:
        return ("r2",)
    return ("auc",) if part["auc"] is not None else ("accuracy", "f1_weighted")


def loss(part):
    return part["rmse"] if "rmse" in part else part["log_loss"]


def prior_loss(part):
    return part["prior_rmse"] if "rmse" in part else part["prior_log_loss"]


def unit(part):
    """In which a slack of the loss counts."""
    return part["prior_rmse"] if "rmse" in part else 1


def slack_of(part):
    return RMSE_SLACK if "rmse" in part else PRIOR_SLACK


def margin(part):
    return LEARNT * unit(part)


def is_result(result):
    return bool(result) and "error" not in result


def has_part(result, part):
    return is_result(result) and bool(result.get(part)) and result[part]["rows"] > 0


def tells(result, part):
    return has_part(result, part) and (part == "whole" or result[part]["rows"] >= FEWEST_ROWS)


def best(results, part, measure):
    """The name and value of the best; (None, None): there is none."""
    values = [(result[part][measure], name) for name, result in results.items()
              if has_part(result, part) and result[part].get(measure) is not None]
    value, name = max(values, default=(None, None))
    return name, value


def beats_prior(result, part):
    return has_part(result, part) and loss(result[part]) < prior_loss(result[part])


def something_can_be_learnt(results, part):
    """Whether any learner is better than one that knows no features: else their order is chance."""
    learners = [*results["defaults"].values(), *results["grid"].values(),
                *(results["peers"].get(peer) for peer in PEERS)]
    return any(has_part(result, part) and loss(result[part]) < prior_loss(result[part]) - margin(result[part])
               for result in learners)


def check_prior(results, part):
    for name in DEFAULTS:
        ours = results["defaults"].get(name)
        if not tells(ours, part):
            continue
        slack = slack_of(ours[part])
        figure, bound = loss(ours[part]), prior_loss(ours[part]) + slack * unit(ours[part])
        if not figure <= bound:
            yield Broken("at most the prior", part, f"{name}: {figure:.4f}, the prior and slack {bound:.4f}",
                         name, allowed=slack)
        peers = [peer for peer in PEERS if beats_prior(results["peers"].get(peer), part)]
        if peers and not beats_prior(ours, part):
            yield Broken("below the prior where a peer is", part,
                         f"{name}: {figure:.4f}, the prior {prior_loss(ours[part]):.4f}, "
                         f"below it: {', '.join(peers)}", name)


def check_against(results, part, promise, kind, others, allowed):
    if not something_can_be_learnt(results, part):
        return
    for setting in HELD_AGAINST_OTHERS:
        ours = results["defaults"].get(setting)
        if not tells(ours, part):
            continue
        for measure in measures(ours[part]):
            name, value = best(others, part, measure)
            figure = ours[part][measure]
            if value is not None and (figure is None or figure < value - allowed):
                yield Broken(promise, part, f"{setting}: {measure} {told(figure)}, {name} {value:.4f}", setting,
                             measure, kind, PEERS if kind == "peers" else (name,), allowed)


def told(figure):
    return "none" if figure is None else f"{figure:.4f}"


def check_workers(results, part, promise, worse, better):
    """Four workers against one, or large batches against small ones."""
    few, many = results["defaults"].get(worse), results["defaults"].get(better)
    if not tells(few, part) or not tells(many, part) or few["rows"] < FEWEST_FOR_FOUR:
        return
    if not something_can_be_learnt(results, part):
        return
    for measure in measures(many[part]):
        figure, value = few[part][measure], many[part][measure]
        if value is not None and (figure is None or figure < value - QUALITY_SLACK - EQUAL):
            yield Broken(promise, part, f"{worse}: {measure} {told(figure)}, {better} {value:.4f}", worse, measure,
                         "defaults", (better,), QUALITY_SLACK + EQUAL)


def broken(results):
    """`results`: {"defaults": {name: result}, "grid": ..., "peers": ...} of a set, a result as learn_csv
    prints it, or {"error": text}. What is not known breaks no promise."""
    found = []
    for part in PARTS:
        found += check_prior(results, part)
        found += check_against(results, part, "within .01 of the grid's best", "grid", results["grid"],
                               QUALITY_SLACK + EQUAL)
        peers = {peer: results["peers"].get(peer) for peer in PEERS}
        found += check_against(results, part, "not below a peer", "peers", peers, EQUAL)
        for setting in (grid.AS_STARTED, grid.FOUR):
            found += check_workers(results, part, "four workers within .01 of one", setting, grid.ONE)
        for setting in (grid.AS_STARTED, grid.FOUR_BY_256):
            found += check_workers(results, part, "batches of 256 within .01 of batches of 1", setting,
                                   grid.FOUR_BY_1)
    return found
