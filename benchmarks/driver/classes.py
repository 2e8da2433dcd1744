"""Rows per second of softmax on hashed text, by the number of classes.

The same texts, hashed to 1,024 features, with labels drawn evenly from more and more classes; batches
of 128 rows, two WorkerApps with two workers each. A model is sent whole in each round, or a batch is
sent the weights that it names, as embedding rows of one value for each class (--wide-above), as in
`features`. The floor is the fewest classes, sent whole, in the same turn. A row needs a score for
each class, so it cannot cost nothing: processor time in proportion to the classes is what an
arithmetic that leaves nothing out comes to.
"""

import random

from common import WORK, compared, pass_over, text_rows
from features import NAMES, WHOLE, WIDE, training

CLASSES = (2, 8, 32, 128, 512, 2048)
FEATURES = 1024
MOST_WHOLE = 512  # classes; a round of more takes seconds


def labelled(rows, classes):
    """The texts with other labels."""
    path = WORK / "data" / f"classes-{classes}-{rows}.csv"
    texts = text_rows(rows, "features")
    if path.exists() and path.stat().st_mtime > texts.stat().st_mtime:
        return path
    draw = random.Random(1)
    with open(texts, encoding="utf-8") as lines, open(path, "w", encoding="utf-8") as out:
        out.write(next(lines))
        for line in lines:
            out.write(f"c{draw.randrange(classes)},{line.split(',', 1)[1]}")
    return path


def run(options):
    rows = options.classes_rows
    kinds = [(classes, wide) for classes in CLASSES for wide in (WHOLE, WIDE)
             if wide == WIDE or classes <= MOST_WHOLE]
    rates = {kind: [] for kind in kinds}
    for turn in range(options.turns):
        for classes, wide in kinds:
            name = f"classes-{options.stamp}-{turn}-{classes}-{'rows' if wide == WIDE else 'whole'}"
            features = ["--label", "label", "--text", "text", "--text-buckets", FEATURES,
                        "--classes", ",".join(f"c{k}" for k in range(classes))]
            rates[classes, wide].append(pass_over(options, name, features, training(wide),
                                                  labelled(rows, classes), rows))
    few = rates[CLASSES[0], WHOLE]
    return [compared(f"{classes:,} classes, {NAMES[wide]}", "rows/s", rates[classes, wide], few, "",
                     NAMES[wide], classes) for classes, wide in kinds]
