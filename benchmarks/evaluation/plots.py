"""Draws the plots of blocks.py by matplotlib."""

import io

import spread

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666")  # Okabe and Ito
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def thousands(value, _):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def colours_of(plot):
    """A colour for each name, the same in all panels."""
    names = dict.fromkeys(series.name for panel in plot.panels for series in panel.series)
    return {name: i % len(COLOURS) for i, name in enumerate(names)}


def draw_bars(axes, panel, colours):
    names = panel.series[0].x
    width = 0.8 / len(panel.series)
    for i, series in enumerate(panel.series):
        at = [place + (i - (len(panel.series) - 1) / 2) * width for place in range(len(names))]
        bars = axes.bar(at, series.y, width, color=COLOURS[colours[series.name]], label=series.name)
        axes.bar_label(bars, [spread.number(value) if isinstance(value, float) else f"{value:,}" for value in series.y],
                       fontsize=8)
    axes.set_xticks(range(len(names)), names, fontsize=8)
    axes.grid(False, axis="x")


def draw_lines(axes, panel, colours):
    for series in panel.series:
        colour = COLOURS[colours[series.name]]
        for x, y in series.others:
            axes.plot(x, y, color=colour, linewidth=0.7, alpha=0.4)
        many = len(series.x) > 20
        axes.plot(series.x, series.y, color=colour, label=series.name, linewidth=1.6,
                  marker=None if many else MARKERS[colours[series.name]], markersize=5)
        if series.low is not None:
            axes.vlines(series.x, series.low, series.high, color=colour, linewidth=4, alpha=0.35)
    if panel.log_x:
        axes.set_xscale("log")
    if all(value >= 0 for series in panel.series for value in series.y):
        low, high = axes.get_ylim()
        if low < 0.25 * high:  # near zero anyway: then from zero on
            axes.set_ylim(0, high)
    if panel.ticks:
        axes.set_xticks([x for x, _ in panel.ticks], [name for _, name in panel.ticks])
        axes.minorticks_off()
    else:
        axes.xaxis.set_major_formatter(thousands)


def draw_panel(axes, panel, colours):
    axes.grid(alpha=0.25)
    (draw_bars if panel.bars else draw_lines)(axes, panel, colours)
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.yaxis.set_major_formatter(thousands)
    if panel.y_limits:
        axes.set_ylim(*panel.y_limits)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw(plot):
    """The PNG of a plot."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    panels = [panel for panel in plot.panels if any(series.x for series in panel.series)]
    if not panels:
        return None
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(5.4 * columns, 3.7 * lines), dpi=110, squeeze=False,
                                sharey=len({panel.y_label for panel in panels}) == 1)
    colours = colours_of(plot)
    places = [each for line in axes for each in line]
    for place, panel in zip(places, panels):
        draw_panel(place, panel, colours)
        if len(panel.series) > 1 or panel.series[0].name:
            place.legend(fontsize=8, frameon=False)
    for place in places[len(panels):]:
        place.set_visible(False)
    figure.suptitle(plot.title, fontsize=11, x=0.01, ha="left")
    figure.tight_layout()
    out = io.BytesIO()
    figure.savefig(out, format="png", metadata={"Software": None})
    plt.close(figure)
    return out.getvalue()
