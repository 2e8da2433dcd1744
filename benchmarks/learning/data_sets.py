"""The sets that learners are compared on: each a CSV, made from what packages of PyPI have inside, or
generated, and what of it is learnt. None is downloaded by itself; no row is left out.

Generated sets have a fixed seed. What a package has in the order of its classes is shuffled by one.
Another draw is of another seed: other rows of a generator, another order of rows that have none of their
own. So it tells what of a difference is chance.
"""

import csv
import dataclasses
import itertools
import math
import os
import random
import subprocess

# Of a set that is cut short (--quick).
QUICK_ROWS = 2000


@dataclasses.dataclass
class DataSet:
    """`make` gives the rows of a draw, each a list of cells: label, numeric, categorical columns, text. A
    cross (A*B) of `categorical` is no column of the file. All that is not said here is a default."""

    name: str
    about: str
    make: object
    numeric: list = dataclasses.field(default_factory=list)
    categorical: list = dataclasses.field(default_factory=list)
    text: str = ""
    regression: bool = False
    label: str = "label"
    file: str = ""  # that is there already, with other columns, too
    in_order: bool = False  # rows are in an order that means something: there is one draw only
    draw: int = 0
    path: str = ""  # of the CSV

    def full_name(self):
        return f"{self.name}-{self.draw}" if self.draw else self.name

    def can_be_drawn_again(self):
        return not self.file and not self.in_order

    def columns(self):
        names = [self.label, *self.numeric]
        names += [name for name in self.categorical if "*" not in name]
        return names + ([self.text] if self.text else [])

    def flags(self):
        """Of learn_csv, CsvProducer's."""
        words = ["--input", self.path, "--label", self.label]
        if self.numeric:
            words += ["--numeric", ",".join(self.numeric)]
        if self.categorical:
            words += ["--categorical", ",".join(self.categorical)]
        if self.text:
            words += ["--text", self.text]
        return words + (["--regression"] if self.regression else [])

    def described(self):
        """All that a peer has to know, for JSON."""
        return {name: getattr(self, name) for name in
                ("name", "path", "label", "numeric", "categorical", "text", "regression")}


# ---- made from packages ----


def scikit_learn(name):
    def rows(draw=0):
        from sklearn import datasets
        data = getattr(datasets, f"load_{name}")()
        order = list(range(len(data.target)))
        random.Random(1 + draw).shuffle(order)
        for i in order:
            label = float(data.target[i]) if name == "diabetes" else data.target_names[data.target[i]]
            yield [label, *(float(value) for value in data.data[i])]

    return rows


def river(name):
    """The first draw is in the package's order."""

    def rows(draw=0):
        from river import datasets
        found = [[y, *x.values()] for x, y in getattr(datasets, name)()]
        if draw > 0:
            random.Random(draw).shuffle(found)
        yield from found

    return rows


def stream(make, rows, columns=None):
    """`make` gives a stream of River's generators, by what is added to their seeds."""

    def limited(draw=0):
        from river.datasets import synth
        for x, y in itertools.islice(iter(make(synth, 1000 * draw)), rows):
            yield [y, *((x[name] for name in columns) if columns else x.values())]

    return limited


def agrawal(synth, seed):
    return synth.ConceptDriftStream(stream=synth.Agrawal(classification_function=0, seed=seed + 42),
                                    drift_stream=synth.Agrawal(classification_function=4, seed=seed + 43),
                                    position=20_000, width=1000, seed=seed + 1)


def sea(synth, seed):
    return itertools.chain.from_iterable(
        itertools.islice(iter(synth.SEA(variant=v, seed=seed + 42 + v, noise=.1)), 10_000)
        for v in range(4))


# ---- generated ----


def chance(logit):
    return 1 / (1 + math.exp(-max(-700.0, min(700.0, logit))))


def noise(draw=0, rows=20_000):
    """A fifth of the rows is positive, whatever their features."""
    r = random.Random(3 + 1000 * draw)
    for _ in range(rows):
        yield [int(r.random() < .2), *(round(r.gauss(0, 1), 6) for _ in range(8)),
               *(f"v{r.randrange(20)}" for _ in range(3))]


def heavy_tails(draw=0, rows=20_000):
    """Columns whose largest value is some ten thousand times the median; two of them matter a little."""
    r = random.Random(4 + 1000 * draw)
    for _ in range(rows):
        z = [r.gauss(0, 1) for _ in range(10)]
        yield [int(r.random() < chance(-2.3 + .25 * z[0] - .25 * z[1])),
               *(f"{math.exp(3 * value):.6g}" for value in z)]


def scales(draw=0, rows=20_000):
    """Columns from a millionth to a million, some far from zero, and outliers in three of them."""
    r = random.Random(5 + 1000 * draw)
    weights = [1, -1, .5, .5, -.5, 0, 1, 0, -1, .7]
    offsets = [0, 3, 0, -10, 0, 0, 100, 0, 0, 5]
    for _ in range(rows):
        z = [r.gauss(0, 1) for _ in weights]
        label = int(r.random() < chance(sum(a * b for a, b in zip(z, weights)) - .3))
        x = [value + offset for value, offset in zip(z, offsets)]
        for j in (1, 4, 8):
            if r.random() < .01:
                x[j] = offsets[j] + r.choice((-1000, 1000)) * (1 + abs(r.gauss(0, 1)))
        yield [label, *(f"{value * 10 ** (-6 + 12 * j / 9):.9g}" for j, value in enumerate(x))]


def repeated(draw=0, rows=20_000):
    """Two columns that nearly say the same; their difference decides."""
    r = random.Random(8 + 1000 * draw)
    for _ in range(rows):
        both, difference = r.gauss(0, 1), r.gauss(0, 1)
        yield [int(r.random() < chance(2 * difference)), f"{both:.6f}", f"{both + .05 * difference:.6f}"]


def temperatures(draw=0, rows=20_000):
    """Three temperatures that follow each other by the hour; their differences decide, regression."""
    r = random.Random(9 + 1000 * draw)
    weather = 0.0
    for hour in range(rows):
        weather = .97 * weather + r.gauss(0, 1)
        air = 15 + 10 * math.sin(2 * math.pi * hour / 24) + 12 * math.sin(2 * math.pi * hour / 2400) + weather
        felt, dew = air + r.gauss(0, .5), air - 4 + r.gauss(0, 1.2)
        target = 3 * (air - felt) + 2 * (air - dew) + .3 * air + r.gauss(0, .8)
        yield [f"{target:.6g}", f"{air:.6g}", f"{felt:.6g}", f"{dew:.6g}"]


def season(draw=0, rows=20_000):
    """A number whose level goes up and down once in 3,142 rows, which no column tells, regression."""
    r = random.Random(11 + 1000 * draw)
    for row in range(rows):
        x = [r.gauss(0, 1) for _ in range(4)]
        target = 20 * math.sin(row / 500) + 3 * x[0] + r.gauss(0, 1)
        yield [f"{target:.6g}", *(f"{value:.6f}" for value in x)]


def busy_hours(draw=0, rows=20_000):
    """Two classes whose frequencies change places every 942 rows, which no column tells."""
    r = random.Random(12 + 1000 * draw)
    for row in range(rows):
        x = [r.gauss(0, 1) for _ in range(4)]
        logit = 4 * math.sin(row / 300) + .5 * x[0] - .3 * x[1]
        yield [int(r.random() < chance(logit)), *(f"{value:.6f}" for value in x)]


def wide(draw=0, rows=3000):
    """A thousand columns, each of which says a little."""
    r = random.Random(10 + 1000 * draw)
    weights = [r.gauss(0, .1) for _ in range(1000)]
    for _ in range(rows):
        x = [r.gauss(0, 1) for _ in weights]
        yield [int(r.random() < chance(sum(a * b for a, b in zip(x, weights)))), *(f"{value:.4g}" for value in x)]


CLICK_VALUES = [10, 30, 100, 300, 1000, 3000, 10_000, 20_000]


def clicks(draw=0, rows=60_000):
    """Advertisements: 3 % are clicked. Columns of 10 to 20,000 values, by Zipf's law; 30 % of the
    values matter, and of the pairs of two crosses."""
    r = random.Random(7 + 1000 * draw)
    columns = []
    for values in CLICK_VALUES:
        cumulative = list(itertools.accumulate((k + 1) ** -1.1 for k in range(values)))
        columns.append(r.choices(range(values), cum_weights=cumulative, k=rows))
    logits = [0.0] * rows
    crosses = [list(zip(columns[a], columns[b])) for a, b in ((1, 2), (0, 4))]
    for column in [*columns, *crosses]:
        weights = {value: r.gauss(0, 1) if r.random() < .3 else 0.0
                   for value in sorted(set(column))}
        logits = [logit + weights[value] for logit, value in zip(logits, column)]
    low, high = -20.0, 5.0
    for _ in range(40):
        middle = (low + high) / 2
        if sum(chance(logit + middle) for logit in logits) > .03 * rows:
            high = middle
        else:
            low = middle
    for i, logit in enumerate(logits):
        yield [int(r.random() < chance(logit + low)), *(f"v{column[i]}" for column in columns)]


def friedman(synth, seed):
    return synth.Friedman(seed=seed + 42)


def numbered(prefix, count):
    return [f"{prefix}{i}" for i in range(count)]


FLIGHTS = {
    "label": "late",
    "numeric": "distance,hour_flights,hour_origin_flights,temp,dewp,humid,wind_speed,wind_gust,precip,"
               "pressure,visib".split(","),
}
FLIGHTS_CROSSED = ("carrier,origin,dest,hour,weekday,origin*hour,carrier*origin,carrier*dest,date,"
                   "date*origin,date*hour,date*origin*hour,date*carrier,date*dest").split(",")


def all_sets(data="", make_text=""):
    """In the order of the report. `data`: the folder of datasets/*.py, whose files are taken if they
    are there. `make_text`: the program of benchmarks/text; without it there are no texts."""
    clicked = numbered("c", len(CLICK_VALUES))
    sets = [
        DataSet("breast-cancer", "scikit-learn, 30 columns", scikit_learn("breast_cancer"), numbered("x", 30)),
        DataSet("wine", "scikit-learn, 3 classes", scikit_learn("wine"), numbered("x", 13)),
        DataSet("digits", "scikit-learn, 64 pixels, 10 classes", scikit_learn("digits"), numbered("p", 64)),
        DataSet("phishing", "River", river("Phishing"), numbered("x", 9)),
        DataSet("bananas", "River, hardly linear", river("Bananas"), numbered("x", 2)),
        DataSet("image-segments", "River, 7 classes", river("ImageSegments"), numbered("x", 18)),
        DataSet("agrawal", "River's generator, another function after 20,000 rows",
                stream(agrawal, 40_000, ["salary", "commission", "age", "hvalue", "hyears", "loan",
                                         "elevel", "car", "zipcode"]),
                ["salary", "commission", "age", "hvalue", "hyears", "loan"],
                ["elevel", "car", "zipcode"]),
        DataSet("sea", "River's generator, four functions, a tenth of the labels is wrong",
                stream(sea, 40_000), numbered("x", 3)),
        DataSet("hyperplane", "River's generator, a plane that turns slowly",
                stream(lambda synth, seed: synth.Hyperplane(seed=seed + 42, n_features=10, n_drift_features=4,
                                                            mag_change=.001, noise_percentage=.05), 40_000),
                numbered("x", 10)),
        DataSet("led", "River's generator, 10 classes, 17 columns of 24 say nothing",
                stream(lambda synth, seed: synth.LED(seed=seed + 42, noise_percentage=.1, irrelevant_features=True),
                       20_000), numbered("x", 24)),
        DataSet("noise", noise.__doc__, noise, numbered("x", 8), numbered("c", 3)),
        DataSet("heavy-tails", heavy_tails.__doc__, heavy_tails, numbered("x", 10)),
        DataSet("scales", scales.__doc__, scales, numbered("x", 10)),
        DataSet("repeated", repeated.__doc__, repeated, numbered("x", 2)),
        DataSet("wide", wide.__doc__, wide, numbered("x", 1000)),
        DataSet("clicks", clicks.__doc__, clicks, [], clicked),
        DataSet("clicks-crossed", "the same, the two crosses given", clicks, [],
                [*clicked, "c1*c2", "c0*c4"]),
        DataSet("diabetes", "scikit-learn, regression", scikit_learn("diabetes"), numbered("x", 10),
                regression=True),
        DataSet("friedman", "River's generator, regression, not linear", stream(friedman, 20_000),
                numbered("x", 10), regression=True),
        DataSet("temperatures", temperatures.__doc__, temperatures, ["air", "felt", "dew"], regression=True),
        DataSet("season", season.__doc__, season, numbered("x", 4), regression=True),
        DataSet("busy-hours", busy_hours.__doc__, busy_hours, numbered("x", 4)),
        DataSet("trump-approval", "River, regression, a slowly changing target", river("TrumpApproval"),
                numbered("x", 6), regression=True, in_order=True),
    ]
    if make_text:
        sets.append(DataSet("texts", "generated by benchmarks/text/make_text.cc, 6 classes",
                            generated_texts(make_text), label="label", text="text"))
    reviews, flights = os.path.join(data, "reviews.csv"), os.path.join(data, "flights.csv")
    if data and os.path.exists(reviews):
        sets.append(DataSet("reviews", "Amazon Fine Food Reviews", None, label="Score", text="Text",
                            file=reviews))
    if data and os.path.exists(flights):
        sets += [DataSet("flights-plain", "flights without the date", None, **FLIGHTS, file=flights,
                         categorical=["carrier", "dest", "hour", "weekday", "origin*hour", "carrier*origin"]),
                 DataSet("flights", "flights with the columns of scripts/demo", None, **FLIGHTS, file=flights,
                         categorical=FLIGHTS_CROSSED)]
    return sets


def generated_texts(make_text):
    def rows(draw=0, count=20_000):
        # To a pipe: the file would be read once and thrown away.
        command = [make_text, "--rows", str(count), "--csv", "/dev/stdout"]
        command += ["--seed", str(1000 * draw)] if draw > 0 else []
        with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
            reader = csv.reader(process.stdout)
            header = next(reader)
            order = [header.index("label"), header.index("text")]
            for row in reader:
                if len(row) == len(header):
                    yield [row[i] for i in order]

    return rows


def rows_of(data_set):
    """Header and rows of what is to be written."""
    if not data_set.file:
        return data_set.columns(), data_set.make(data_set.draw)
    return file_header(data_set), file_rows(data_set)


def file_header(data_set):
    """The columns of a file that are used: a cross's parts, too."""
    wanted = {part for name in data_set.categorical for part in name.split("*")}
    wanted |= {data_set.label, data_set.text, *data_set.numeric}
    with open(data_set.file, newline="", encoding="utf-8") as file:
        return [name for name in next(csv.reader(file)) if name in wanted]


def file_rows(data_set):
    header = file_header(data_set)
    with open(data_set.file, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield [row[name] for name in header]


def write(data_set, folder, most_rows=None):
    """Writes the set's CSV, of `most_rows` rows at most; returns how many it has."""
    os.makedirs(folder, exist_ok=True)
    data_set.path = os.path.join(folder, f"{data_set.full_name()}.csv")
    header, rows = rows_of(data_set)
    count = 0
    with open(data_set.path + ".new", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for row in itertools.islice(rows, most_rows):
            writer.writerow(row)
            count += 1
    os.replace(data_set.path + ".new", data_set.path)
    return count
