"""What the report says, from what was measured. Pure, apart from drawing."""

import consistency
import cost
import frequency
import ground_truth
import partitions
import sets
from blocks import Column, Panel, Paragraph, Plot, Series, Table

SECTIONS = {module.NAME: module for module in (ground_truth, partitions, frequency, consistency, cost)}
TITLE = "Millrace: evaluation"


def sets_blocks(chosen):
    """What is learnt."""
    columns = [Column("set"), Column("rows"), Column("what", is_text=True), Column("features", is_text=True)]
    yield Table("Data sets", columns,
                [[each.name, f"{each.rows:,}", each.about, each.features_text()] for each in chosen])
    for each in chosen:
        if not each.scores:
            continue
        yield Table(f"{each.name}: reviews by score", [Column("score"), Column("before"), Column("after")],
                    [[score, f"{before:,}", f"{after:,}"] for score, before, after in each.scores],
                    "Before and after reviews of the frequent scores were removed. Which of them go is drawn with a "
                    "fixed seed; the order stays that of time." if is_balanced(each) else
                    "Nothing was removed: how a model copes with unequal scores is of interest.")
        names = [score for score, _, _ in each.scores]
        both = [Series("before", names, [before for _, before, _ in each.scores])]
        if is_balanced(each):
            both.append(Series("after", names, [after for _, _, after in each.scores]))
        yield Plot(f"scores-{each.name}", f"{each.name}: reviews by score", "How many reviews have each score.",
                   [Panel("", "score", "reviews", both, bars=True)])


def is_balanced(each):
    return any(before != after for _, before, after in each.scores)


def sections(chosen, results, wanted):
    """(title, blocks) of each section that was asked for."""
    yield "The data", list(sets_blocks(chosen))
    for name in wanted:
        module = SECTIONS[name]
        its_blocks = [Paragraph(module.ABOUT)]
        for each in chosen:
            measured = results.of(name, each.name)
            if measured:
                its_blocks += module.blocks(each, measured)
            else:
                its_blocks.append(Paragraph(f"{each.name}: nothing was measured."))
        yield module.TITLE, its_blocks


def missing(left_out, errors):
    """What is not in the report, and why: a section, or none."""
    if left_out:
        yield Paragraph("Left out for want of time:")
        yield Table("Left out", [Column("case and runs")], [[line] for line in left_out])
    if errors:
        yield Paragraph("Failed:")
        yield Table("Failed", [Column("case and why")], [[line] for line in errors])


def about(options, machine, minutes, interrupted):
    """Paragraphs."""
    lines = [f"{machine}. Runs of each case: {options.runs}, as far as time sufficed; {minutes:.0f} minutes. A figure "
             "is min/median/max of its runs ('2 equal': both runs gave that number, to the digits shown). On a machine "
             "that does other things figures say little; a great distance from the least to the most shows it."]
    if options.size == sets.QUICK:
        lines.append("--quick: few rows, few cases, few runs. These figures only show that the evaluation works.")
    if interrupted:
        lines.append("The evaluation was interrupted: this is what had been measured.")
    return lines
