"""Flights as Vowpal Wabbit reads them: vw_flights.py FLIGHTS.csv writes them to standard output.

So a Python feeds Vowpal Wabbit with a stream. The columns are those of flights.py.
"""

import csv
import sys

NUMERIC = ["distance", "hour_flights", "hour_origin_flights", "temp", "dewp", "humid", "wind_speed",
           "wind_gust", "precip", "pressure", "visib"]
CATEGORICAL = ["carrier", "dest", "hour", "weekday", "origin*hour", "carrier*origin"]


def example(row):
    """A flight in the format of Vowpal Wabbit, in which neither a name nor a value has a space."""
    words = [f"{name}:{row[name]}" for name in NUMERIC]
    words += [f"{name}=" + "^".join(row[part] for part in name.split("*")) for name in CATEGORICAL]
    return f"{1 if row['late'] == 'yes' else -1} | {' '.join(words)}\n"


if __name__ == "__main__":
    with open(sys.argv[1], newline="", encoding="utf-8") as flights:
        sys.stdout.writelines(map(example, csv.DictReader(flights)))
