"""Rows per second of softmax on hashed text, by the width of its feature space.

The same texts, hashed to more and more features (--text-buckets), 6 classes, batches of 128 rows,
two WorkerApps with two workers each. A model of few weights is sent whole in each round; a wide one
sends a batch the weights that it names, as embedding rows (--wide-above). Both are measured, so that
the width from which rows are cheaper is seen. The floor is the narrowest space, sent whole, in the
same turn: width should cost nothing, since a row names as many features in any of them.
"""

import time

from common import Job, Rate, compared, cpu_s, text_rows

BITS = (10, 12, 14, 16, 18, 20)
MOST_WHOLE_BITS = 16  # a round of more takes seconds
WIDE, WHOLE = "0", str(1 << 40)


def rate(options, name, bits, wide_above, csv):
    features = ["--label", "label", "--text", "text", "--classes", "1,2,3,4,5,6",
                "--text-buckets", str(1 << bits)]
    with Job(options.broker, name, ["--batch-rows", "128", "--wide-above", wide_above]) as job:
        job.produce(csv, features=features)
        job.wait("producer")
        before = cpu_s(options.broker_pid)
        job.serve()
        names = job.work()
        began = time.monotonic()
        job.wait("server", *names)
        seconds = time.monotonic() - began
        used = sum(job.cpu_s[each] for each in ("server", *names))
        used += cpu_s(options.broker_pid) - before
        rows = options.features_rows
        print(f"  {name}: {rows / seconds:,.0f} rows/s, {1e6 * used / rows:.1f} µs of processor "
              f"time a row", flush=True)
        return Rate(rows / seconds, 1000 * used / rows)


def run(options):
    csv = text_rows(options.features_rows, "features")
    kinds = [(bits, wide) for bits in BITS for wide in (WHOLE, WIDE)
             if wide == WIDE or bits <= MOST_WHOLE_BITS]
    rates = {kind: [] for kind in kinds}
    for turn in range(options.turns):
        for bits, wide in kinds:
            name = f"features-{options.stamp}-{turn}-{bits}-{'rows' if wide == WIDE else 'whole'}"
            rates[bits, wide].append(rate(options, name, bits, wide, csv))
    narrow = rates[BITS[0], WHOLE]
    return [compared(f"2^{bits} features, {'as rows' if wide == WIDE else 'sent whole'}", "rows/s",
                     rates[bits, wide], narrow, ">= 0.5" if wide == WIDE and bits == 20 else "")
            for bits, wide in kinds]
