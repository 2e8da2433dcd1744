"""Figures of memory and disk over time, and how fast they grow."""

import collections
import pathlib
import re


def memory(pid):
    """Resident bytes of a process, and of these what no file backs; None when it is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    sizes = dict(re.findall(r"^(VmRSS|RssAnon):\s+(\d+) kB", text, re.M))
    return int(sizes.get("VmRSS", 0)) << 10, int(sizes.get("RssAnon", 0)) << 10


def slope(points):
    """Of the line of least squares through (x, y); 0 for fewer than two different x."""
    n = len(points)
    if n < 2:
        return 0.0
    mean_x = sum(x for x, _ in points) / n
    mean_y = sum(y for _, y in points) / n
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread == 0:
        return 0.0
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


class Series:
    """Points of several names over time."""

    def __init__(self):
        self.points = collections.defaultdict(list)

    def add(self, name, seconds, value):
        self.points[name].append((seconds, value))

    def peak(self, name):
        return max(value for _, value in self.points[name])

    def settled(self, name, since):
        return [(x, y) for x, y in self.points[name] if x >= since]


def grows(points, allowance):
    """Whether a series goes on growing: of its three thirds the least of the last is above the most
    of the first by more than `allowance`, and so is the growth of its line. (A log that is cut now and
    then, or a buffer that is filled once, does not.)"""
    third = len(points) // 3
    if third < 3:
        return False
    values = [y for _, y in points]
    by_line = slope(points) * (points[-1][0] - points[0][0])
    return min(values[-third:]) - max(values[:third]) > allowance and by_line > allowance
