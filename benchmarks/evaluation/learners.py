"""What a learner on one machine makes of a set: learners.py NAME SET.json

    scikit-learn        LogisticRegression with its defaults (C = 1, L-BFGS; until it has converged, 300
                        iterations at most), on the first four fifths of the rows as a batch; tested on the
                        others
    scikit-learn tuned  the same with the best C of .1, 1 and 10, by the log loss on the last fifth of what
                        it learns from
    river, vw, prior    those of benchmarks/learning/peers.py: one pass, each row predicted before it is
                        learnt; of a set that says "learn_rows" only these are learnt

All get the set's columns. scikit-learn hashes them to as many features as Millrace: texts by
HashingVectorizer, of which each word gets the feature that it has in Millrace, categories and crosses by
FeatureHasher; numbers are standardised by the rows that it learns from. The peers do not hash. Prints one
line of JSON: figures of the last fifth of the rows, and the seconds from the file to the predictions.
"""

import importlib
import json
import pathlib
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "learning"))
import figures  # noqa: E402
import peers  # noqa: E402

CHOICE = (0.1, 1.0, 10.0)
MAX_ITERATIONS = 300


def columns_of(rows):
    """The set's columns: numbers, "column=value" of categories and crosses, texts."""
    described = rows.described
    terms = [(term, term.split("*")) for term in described["categorical"]]
    numbers, values, texts = [], [], []
    for row in rows.records():
        numbers.append([float(row[name] or 0) for name in described["numeric"]])
        values.append([f"{term}=" + "*".join(row[name] for name in names) for term, names in terms])
        if described["text"]:
            texts.append(row[described["text"]])
    return numbers, values, texts


def matrix(rows, learnt):
    """All rows as hashed and scaled features."""
    import numpy
    from scipy import sparse
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.preprocessing import StandardScaler
    described = rows.described
    numbers, values, texts = columns_of(rows)
    parts = []
    if described["numeric"]:
        dense = numpy.array(numbers)
        scaler = StandardScaler().fit(dense[:learnt])
        parts.append(sparse.csr_matrix(scaler.transform(dense)))
    if described["categorical"]:
        hasher = FeatureHasher(n_features=described["categorical_buckets"], input_type="string")
        parts.append(hasher.transform(values))
    if described["text"]:
        parts.append(HashingVectorizer(n_features=described["text_buckets"]).transform(texts))
    return sparse.hstack(parts, format="csr")


def fit(x, y, c):
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    warnings.simplefilter("ignore", ConvergenceWarning)  # the report says how far it goes
    return LogisticRegression(C=c, max_iter=MAX_ITERATIONS).fit(x, y)


def probabilities(model, x, classes):
    """Of each row, by class number; a class that was not learnt has none."""
    place = {k: i for i, k in enumerate(model.classes_)}
    return [[float(row[place[k]]) if k in place else 0.0 for k in range(classes)]
            for row in model.predict_proba(x)]


def best_c(x, y, classes):
    """By the last fifth of these rows."""
    cut = len(y) - len(y) // 5

    def loss(c):
        return figures.of_classes(y[cut:], probabilities(fit(x[:cut], y[:cut], c), x[cut:], classes))["log_loss"]

    return min(CHOICE, key=loss)


def batch(rows, tuned):
    """Figures of the last fifth, learnt from the others."""
    learnt = len(rows) - len(rows) // 5
    x, y, classes = matrix(rows, learnt), rows.truths, len(rows.classes)
    c = best_c(x[:learnt], y[:learnt], classes) if tuned else 1.0
    model = fit(x[:learnt], y[:learnt], c)
    return {**figures.of_classes(y[learnt:], probabilities(model, x[learnt:], classes)), "c": c}


def one_pass(rows, learn):
    tail = figures.last_fifth(len(rows))
    return figures.of_classes(rows.truths[tail], learn(rows)[tail])


def learner(name):
    # Imports are not timed.
    importlib.import_module({"river": "river.linear_model", "vw": "vowpalwabbit", "prior": "math"}.get(
        name, "sklearn.linear_model"))
    if name.startswith("scikit-learn"):
        return lambda rows: batch(rows, name.endswith("tuned"))
    return lambda rows: one_pass(rows, peers.PEERS[name])


def result(name, described):
    rows, learn = peers.Rows(described), learner(name)
    began, began_cpu = time.monotonic(), time.process_time()
    found = learn(rows)
    return {"seconds": time.monotonic() - began, "cpu_s": time.process_time() - began_cpu, **found}


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as file:
        print(json.dumps(result(sys.argv[1], json.load(file))))
