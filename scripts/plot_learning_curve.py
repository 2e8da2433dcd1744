#!/usr/bin/env python3
"""Draws a run's learning curve from the evaluation log that `Watch --evaluation-csv` writes.

Panels over the rows of the stream: how well the model ranks (AUC; accuracy when there are more than
two classes), and its log loss; of a regression the root of the mean squared error, the mean absolute
error, and R2. Lines: rows tested before they are trained on (progressive: from the stream's start to
here; window: only the last window of rows; tail: from --tail-after on) and the held-out file. Dashed:
what the frequencies of the classes alone, or the mean of the targets, would give. A model that is
worse than that is called so below the panels.
"""

import argparse
import csv
import json
import os
import sys
import textwrap

# kind in the log, name in the picture, colour (of Okabe and Ito: told apart by everybody)
KINDS = [("holdout", "held-out file", "#0072B2"),
         ("progressive", "tested, then trained on", "#D55E00"),
         ("window", "the same, last window only", "#CC79A7"),
         ("tail", "the same, tail of the stream only", "#009E73")]

# Of a regression: column of the log, its column of who always answers the mean (or that value), title.
REGRESSION = [("rmse", "prior_rmse", "Root mean squared error"), ("mae", None, "Mean absolute error"),
              ("r2", 0.0, "R2")]


def read_points(path):
    """Maps a kind to its points, as dicts of floats."""
    points = {kind: [] for kind, _, _ in KINDS}
    with open(path, newline="") as file:
        for row in csv.DictReader(file, delimiter=";"):
            kind = row.pop("kind")
            if kind in points and int(row["rows"]) > 0:  # before the first row there is no model
                points[kind].append({name: float(cell) for name, cell in row.items() if cell})
    # Figures of a few rows, or of a model that has seen a few, say little and spread the axis.
    for line in points.values():
        if line:
            tested, seen = line[-1]["rows_tested"] / 20, line[-1]["rows"] / 100
            line[:-1] = [point for point in line[:-1]
                         if point["rows_tested"] >= tested and point["rows"] >= seen]
    return points


def warning_of(points, run):
    """What to say of a model that is worse than one that knows nothing of the columns, or None: Watch's
    words (topics/figures_verdict.h), or, if there is no summary, the same by the log's last line."""
    if "worse_than_prior" in run:
        return run["worse_than_prior"]
    last = points["progressive"][-1] if points["progressive"] else {"rows_tested": 0}
    if last["rows_tested"] < 1000:
        return None
    rows = f"after {last['rows_tested']:.0f} rows the model is worse than always answering"
    if "rmse" in last:
        if "prior_rmse" not in last or last["rmse"] <= last["prior_rmse"] * 1.005:
            return None
        return (f"{rows} the mean of the targets: its root mean squared error is {last['rmse']:.6g}, the "
                f"mean's is {last['prior_rmse']:.6g}")
    if "loss" not in last or "prior_log_loss" not in last or last["loss"] <= last["prior_log_loss"] + 0.005:
        return None
    return (f"{rows} the frequencies of the classes: its log loss is {last['loss']:.4f}, theirs is "
            f"{last['prior_log_loss']:.4f}")


def place_labels(axes, labels):
    """Writes each line's last value beside its end, without overlap."""
    low, high = axes.get_ylim()
    least = (high - low) * 0.045
    below = None
    for value, rows, colour in sorted(labels):
        at = value if below is None else max(value, below + least)
        below = at
        axes.annotate(f"{value:.3f}", (rows, at), color=colour, xytext=(5, 0),
                      textcoords="offset points", va="center", fontsize=9)


def draw(axes, points, figure, prior, title, prior_name="class prior"):
    labels = []
    for kind, name, colour in KINDS:
        line = [point for point in points[kind] if figure in point]
        if not line:
            continue
        rows = [point["rows"] for point in line]
        axes.plot(rows, [point[figure] for point in line], color=colour, label=name,
                  linewidth=1.0 if kind == "window" else 1.8,
                  marker="o" if len(line) == 1 else None)
        labels.append((line[-1][figure], rows[-1], colour))
    base = next((points[kind][-1] for kind, _, _ in KINDS if points[kind]), None)
    if base is not None and prior is not None:
        value = prior if isinstance(prior, float) else base[prior]
        axes.axhline(value, color="#666666", linestyle="--", linewidth=1.2, label=prior_name)
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel("rows of the stream")
    axes.set_xlim(left=0)
    axes.margins(x=0.09)
    place_labels(axes, labels)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.xaxis.get_major_locator().set_params(nbins=5)
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", help="the evaluation log (CSV)")
    parser.add_argument("picture", help="where to draw: a file name ending in .png, .svg or .pdf")
    parser.add_argument("--summary", metavar="FILE", help="summary.json of the run, for the title")
    options = parser.parse_args()

    points = read_points(options.log)
    if not any(points.values()):
        sys.exit(f"plot_learning_curve.py: {options.log} has no figures")

    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    run = {}
    if options.summary:
        with open(options.summary) as file:
            run = json.load(file)
    if run.get("epochs", 1) > 1:
        KINDS[1] = (KINDS[1][0], "tested, then trained on (again, from pass 2 on)", KINDS[1][2])

    has = {name for kind in points.values() for point in kind for name in point}
    if "rmse" in has:
        # (An earlier version wrote no others.)
        panels = [each for each in REGRESSION if each[0] in has]
        figure, axes = plt.subplots(1, len(panels), figsize=(max(10.5, 4.6 * len(panels)), 4.2), dpi=130,
                                    squeeze=False)
        right = axes[0][0]
        for place, (name, prior, heading) in zip(axes[0], panels, strict=True):
            draw(place, points, name, prior, heading, "mean of the targets")
    else:
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), dpi=130)
        if "auc" in has:
            draw(left, points, "auc", 0.5, "AUC")
        else:
            draw(left, points, "accuracy", "prior_accuracy", "Accuracy")
        draw(right, points, "loss", "prior_log_loss", "Log loss")
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False, fontsize=9)

    title = os.path.basename(options.log)
    if run:
        title = (f"{run['job']}: {run['workers']} workers, {run['schedule']}, "
                 f"{run['consistency']}, {run['learner']}; "
                 f"{run['rows_trained']:,} rows in {run['duration_seconds']:.1f} s")
    figure.suptitle(title, fontsize=12, x=0.01, ha="left")
    warning = warning_of(points, run)
    said = textwrap.wrap(f"Warning: {warning}.", int(15 * figure.get_figwidth())) if warning else []
    below = 0.06 + 0.045 * len(said)
    figure.text(0.01, 0.08, "\n".join(said), color="#B00020", fontsize=9, va="bottom")
    figure.tight_layout(rect=(0, below, 1, 1))
    new = f"{options.picture}.new{os.path.splitext(options.picture)[1]}"
    figure.savefig(new)
    os.replace(new, options.picture)


if __name__ == "__main__":
    main()
