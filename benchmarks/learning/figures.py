"""Figures of merit of predictions that were made before their rows were learnt, from definitions.

A row's prediction is the list of its classes' probabilities, or of a regression a number. Figures are
those of learn_csv, by the same names: of all rows, and of the last fifth.
"""

import math

# The least probability that counts, as EvaluationSums has it.
LEAST = 1e-15


def last_fifth(rows):
    """The rows of the last fifth, as a slice."""
    return slice(rows - rows // 5, rows)


def auc(scores, positive):
    """The chance that a positive row has the higher score, half of it where they are equal; None
    where a class has no rows."""
    order = sorted(range(len(scores)), key=scores.__getitem__)
    ones = sum(positive)
    zeros = len(scores) - ones
    if not ones or not zeros:
        return None
    ranks, begin = 0.0, 0
    while begin < len(order):
        end = begin
        while end < len(order) and scores[order[end]] == scores[order[begin]]:
            end += 1
        ranks += sum(positive[i] for i in order[begin:end]) * (begin + 1 + end) / 2
        begin = end
    return (ranks - ones * (ones + 1) / 2) / (ones * zeros)


def f1_of_classes(labels, predicted):
    """Of each class that occurs: its rows and its F1."""
    for k in sorted(set(labels)):
        have = sum(label == k for label in labels)
        said = sum(guess == k for guess in predicted)
        right = sum(label == k == guess for label, guess in zip(labels, predicted))
        yield have, 2 * right / (have + said)


def f1_weighted(labels, predicted):
    """The classes' F1, weighted by their rows."""
    return sum(have * f1 for have, f1 in f1_of_classes(labels, predicted)) / len(labels)


def f1_macro(labels, predicted):
    """The mean of the F1 of the classes that occur, as Millrace has it."""
    each = [f1 for _, f1 in f1_of_classes(labels, predicted)]
    return sum(each) / len(each)


def of_classes(labels, probabilities):
    """`labels` are class numbers."""
    predicted = [max(range(len(row)), key=row.__getitem__) for row in probabilities]
    rows, classes = len(labels), len(probabilities[0])
    shares = [labels.count(k) / rows for k in range(classes)]
    return {
        "rows": rows,
        "log_loss": sum(-math.log(max(row[label], LEAST))
                        for label, row in zip(labels, probabilities)) / rows,
        "prior_log_loss": sum(-share * math.log(share) for share in shares if share > 0),
        "accuracy": sum(a == b for a, b in zip(labels, predicted)) / rows,
        "f1_macro": f1_macro(labels, predicted),
        "f1_weighted": f1_weighted(labels, predicted),
        "auc": auc([row[1] for row in probabilities], labels) if classes == 2 else None,
    }


def of_regression(targets, estimates):
    rows = len(targets)
    mean = sum(targets) / rows
    squares = sum((a - b) ** 2 for a, b in zip(targets, estimates)) / rows
    prior = sum((a - mean) ** 2 for a in targets) / rows
    return {
        "rows": rows,
        "rmse": math.sqrt(squares),
        "prior_rmse": math.sqrt(prior),
        "mae": sum(abs(a - b) for a, b in zip(targets, estimates)) / rows,
        "r2": 1 - squares / prior if prior > 0 else None,
    }


def both(of, truths, predictions):
    """Of all rows and of the last fifth."""
    tail = last_fifth(len(truths))
    return {"whole": of(truths, predictions),
            "last_fifth": of(truths[tail], predictions[tail]) if truths[tail] else None}
