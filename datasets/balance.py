"""Classes of equal size, by removing rows of the frequent ones."""

import collections
import random


def histogram(labels):
    """How many rows each label has, in the order of the labels."""
    return dict(sorted(collections.Counter(labels).items()))


def balanced(labels, most=None, seed=1):
    """Which rows to keep, as positions in their order: of each label as many as the rarest has, and at
    most `most`. Which rows of a frequent label stay is drawn, so that they are from all of the stream;
    the same labels and seed keep the same rows. A class that is made equal says nothing of how often
    its label comes: whoever learns from the rest sees a uniform prior."""
    places = {}
    for i, label in enumerate(labels):
        places.setdefault(label, []).append(i)
    if not places:
        return []
    size = min(len(its) for its in places.values())
    if most is not None:
        size = min(size, most)
    draw = random.Random(seed)
    kept = []
    for label in sorted(places):
        kept += draw.sample(places[label], size)
    return sorted(kept)
