"""The settings that are tried on each set: the defaults of a user who chooses nothing, and a grid of
one who knows all the knobs."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Setting:
    name: str
    flags: tuple

    def words(self):
        return list(self.flags)


def setting(name, **flags):
    return Setting(name, tuple(word for flag, value in flags.items()
                               for word in ("--" + flag.replace("_", "-"), str(value))))


# What nobody tuned. As the programs start, which is what a user gets: several workers, batches that grow
# and long turns. Then one worker, and four with a batch of theirs.
AS_STARTED = "as started"
ONE, FOUR_BY_1, FOUR, FOUR_BY_256 = "1 worker", "4 workers by 1", "4 workers by 32", "4 workers by 256"
DEFAULTS = (
    setting(AS_STARTED),
    setting(ONE, workers=1),
    setting(FOUR_BY_1, workers=4, batch_rows=1),
    setting(FOUR, workers=4, batch_rows=32),
    setting(FOUR_BY_256, workers=4, batch_rows=256),
)


def gradient(optimizer, rate, batch, **more):
    """The parameters of hashed columns are kept as rows, so that a batch of one row does not move all of a
    large model: the figures are the same, but of Adam and momentum, which then change only what a batch
    names."""
    words = " ".join(f"{name} {value:g}" for name, value in more.items())
    return setting(f"{optimizer} {rate:g} by {batch} {words}".strip(), workers=1, update="gradient",
                   optimizer=optimizer, learning_rate=rate, batch_rows=batch, wide_above=1024, **more)


def weight_change(solver, batch, iterations, **more):
    words = " ".join(f"rate {value:g}" for value in more.values())
    return setting(f"weight-change {solver} by {batch}, {iterations} iterations {words}".strip(),
                   workers=1, update="weight-change", solver=solver, batch_rows=batch,
                   local_iterations=iterations, **more)


def grid():
    """Update kind, optimizer, rate, batch, decay and penalty; each by one worker."""
    found = [gradient("sgd", rate, batch) for rate in (.01, .03, .1, .3, 1) for batch in (1, 8, 32)]
    found += [gradient("adagrad", rate, batch) for rate in (.03, .1, .3, 1) for batch in (1, 8, 32)]
    found += [gradient("adam", rate, batch) for rate in (.001, .01, .05) for batch in (1, 8, 32)]
    found += [gradient("ftrl", rate, batch) for rate in (.1, .3, 1) for batch in (1, 8)]
    found += [gradient("sgd", rate, batch, decay=decay)
              for rate in (.3, 1) for batch, decay in ((1, 1e-3), (8, 1e-2))]
    found += [gradient("momentum", .03, 8), gradient("momentum", .1, 32)]
    found += [gradient("adagrad", .3, batch, l2=l2) for batch, l2 in ((1, 1e-4), (8, 1e-3))]
    found += [gradient("adagrad", .3, 256), gradient("adam", .05, 256)]
    found += [weight_change("lbfgs", batch, iterations)
              for batch in (32, 256) for iterations in (2, 10)]
    found += [weight_change("sgd", batch, 5, local_learning_rate=rate)
              for batch in (8, 64) for rate in (.1, .5)]
    found += [setting("online by 256", workers=1, update="online", batch_rows=256)]
    return found
