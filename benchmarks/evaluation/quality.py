"""Figures of quality as all sections show them. Pure."""

from blocks import Column

# By the names that Watch's JSON and benchmarks/learning/figures.py have.
NAMES = {"accuracy": "accuracy", "f1_macro": "macro F1", "f1_weighted": "weighted F1", "auc": "AUC",
         "log_loss": "log loss"}


def of(figures):
    """What of a part of Watch's JSON, or of another learner's result, is shown; absent figures are None."""
    return {name: figures.get(name) for name in NAMES}


def names(each):
    """Those that a set has: the AUC is for two classes."""
    return [name for name in NAMES if name != "auc" or len(each.classes) == 2]


def columns(each):
    return [Column(NAMES[name], 3 if name != "log_loss" else 4) for name in names(each)]


def cells(each, spreads):
    return [spreads.get(name) for name in names(each)]
