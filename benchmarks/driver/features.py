"""Rows per second of softmax on hashed text, by the width of its feature space.

The same texts, hashed to more and more features (--text-buckets), 6 classes, batches of 128 rows,
two WorkerApps with two workers each. A model of few weights is sent whole in each round; a wide one
sends a batch the weights that it names, as embedding rows (--wide-above). Both are measured, so that
the width from which rows are cheaper is seen. The floor is the narrowest space, sent whole, in the
same turn: width should cost nothing, since a row names as many features in any of them.
"""

from common import compared, pass_over, text_rows

BITS = (10, 12, 14, 16, 18, 20)
MOST_WHOLE_BITS = 16  # a round of more takes seconds
WIDE, WHOLE = "0", str(1 << 40)
NAMES = {WIDE: "as rows", WHOLE: "sent whole"}


def training(wide_above):
    return ["--update", "gradient", "--batch-rows", "128", "--wide-above", wide_above]


def run(options):
    csv = text_rows(options.features_rows, "features")
    kinds = [(bits, wide) for bits in BITS for wide in (WHOLE, WIDE)
             if wide == WIDE or bits <= MOST_WHOLE_BITS]
    rates = {kind: [] for kind in kinds}
    for turn in range(options.turns):
        for bits, wide in kinds:
            name = f"features-{options.stamp}-{turn}-{bits}-{'rows' if wide == WIDE else 'whole'}"
            features = ["--label", "label", "--text", "text", "--classes", "1,2,3,4,5,6",
                        "--text-buckets", str(1 << bits)]
            rates[bits, wide].append(pass_over(options, name, features, training(wide), csv,
                                               options.features_rows))
    narrow = rates[BITS[0], WHOLE]
    return [compared(f"2^{bits} features, {NAMES[wide]}", "rows/s", rates[bits, wide], narrow,
                     ">= 0.5" if wide == WIDE and bits == 20 else "", NAMES[wide], 1 << bits)
            for bits, wide in kinds]
