"""The report of a comparison, as a page (Markdown)."""

import draws
import grid
import promises

SHORT = {"auc": "AUC", "accuracy": "accuracy", "f1_weighted": "weighted F1", "r2": "R²"}
HEADER = ("set", "rows", "quality", "prior", *promises.DEFAULTS, "best of the grid", "River", "Vowpal Wabbit",
          "broken promises")


def number(value):
    if value is None:
        return "–"
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.3g}"


def short_error(result):
    return result["error"].split("\n")[-1]


def cell(result, part, measure):
    """Loss and quality of a result."""
    if not result:
        return ""
    if "error" in result:
        return "none"
    if not promises.has_part(result, part):
        return ""
    return f"{number(promises.loss(result[part]))} / {number(result[part].get(measure))}"


def row(name, results, part, missed):
    """A line of the table of a set."""
    ours = results["defaults"].get(grid.ONE)
    if not promises.has_part(ours, part):
        error = short_error(ours) if ours and "error" in ours else "no rows"
        return f"| {name} | {results['rows']:,} | {error} |" + " |" * (len(HEADER) - 3)
    measure = promises.measures(ours[part])[0]
    setting, value = promises.best(results["grid"], part, measure)
    cells = [name, f"{results['rows']:,}", SHORT[measure], number(promises.prior_loss(ours[part]))]
    cells += [cell(results["defaults"].get(each), part, measure) for each in promises.DEFAULTS]
    cells.append(f"{number(value)} {setting or ''}")
    cells += [cell(results["peers"].get(peer), part, measure) for peer in promises.PEERS]
    cells.append(", ".join(sorted({each.promise for each in missed if each.part == part})) or "")
    return f"| {' | '.join(cells)} |"


def table(all_results, part):
    yield f"| {' | '.join(HEADER)} |"
    yield "|" + " --- |" * len(HEADER)
    for name, results in all_results.items():
        yield row(name, results, part, results["broken"])


def section_of_broken(all_results):
    rows = [(name, each) for name, results in all_results.items() for each in results["broken"]]
    if not rows:
        yield "None: every promise is kept on every set."
        return
    yield "| set | promise | rows | defaults, and what they are held against |"
    yield "| --- | --- | --- | --- |"
    for name, each in rows:
        yield f"| {name} | {each.promise} | {each.part.replace('_', ' ')} | {each.detail} |"


def section_of_draws(all_results):
    """What the first draw broke, on further draws."""
    rows = [(name, each) for name, results in all_results.items() for each in results.get("judged", [])]
    if not rows:
        yield "No set that breaks a promise was drawn again."
        return
    yield "| set | promise | rows | the first draw | the others | so it is |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, each in rows:
        broken = each.broken
        yield (f"| {name} | {broken.promise} | {broken.part.replace('_', ' ')} | {broken.detail} | {each.told()} | "
               f"{each.word} |")


def section_of_errors(all_results):
    """What has no figures, and why: of settings that fail in the same way, how many."""
    for name, results in all_results.items():
        told = {}
        for kind in ("defaults", "grid", "peers"):
            for setting, result in results[kind].items():
                if "error" in result:
                    told.setdefault(short_error(result), []).append(setting)
        for error, settings in told.items():
            shown = ", ".join(settings[:3]) + (f" and {len(settings) - 3} more" if len(settings) > 3 else "")
            yield f"- {name}: {shown}: {error}"


def page(all_results, about):
    """`about`: what was asked for, a sentence each."""
    lines = [
        "# How good the defaults are", "",
        *about, "",
        "A cell is loss / quality, of predictions made before a row was learnt. Loss is the log loss, of a",
        "regression the RMSE. Quality is the AUC of two classes, the accuracy of more (the weighted F1 is held",
        "against the others, too), and R² of a regression. `prior`: the loss of always answering the",
        "frequencies of the classes of all these rows, or their mean. The promises: loss at most the prior's",
        f"+ {promises.PRIOR_SLACK} (RMSE: + {promises.RMSE_SLACK:.1%}), and below it where a peer is; within",
        f"{promises.QUALITY_SLACK} of the grid's best, and not below a peer (to three places); four workers within",
        f"{promises.QUALITY_SLACK} of one, and at batches of 256 within {promises.QUALITY_SLACK} of batches of 1 (from "
        f"{promises.FEWEST_FOR_FOUR:,} rows on).",
        f"They hold for `{grid.AS_STARTED}`, what a user gets who sets nothing (four workers, batches that grow), and",
        "for the setting that they name, or one worker.",
        f"A last fifth of fewer than {promises.FEWEST_ROWS:,} rows is not judged, nor is quality where no learner",
        f"beats the prior by {promises.LEARNT} (RMSE: {promises.LEARNT:.1%}).",
        "",
        "A generated set is one draw of many, and so is the order of rows that have none of their own. Where",
        "the first draw breaks a promise, others decide: it is broken if it is missed in their mean by more than",
        f"{draws.SURE} standard errors of that mean, each draw compared with itself.", "",
        "## All rows", "", *table(all_results, "whole"), "",
        "## The last fifth", "", *table(all_results, "last_fifth"), "",
        "## Broken promises", "", *section_of_broken(all_results), "",
        "## Drawn again", "", *section_of_draws(all_results), "",
    ]
    errors = list(section_of_errors(all_results))
    if errors:
        lines += ["## Without figures", "", *errors, ""]
    lines += ["## The sets", "", *(f"- {name}: {' '.join(results['about'].split())}"
                                   for name, results in all_results.items()), ""]
    return "\n".join(lines)
