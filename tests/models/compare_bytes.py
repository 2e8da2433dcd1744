#!/usr/bin/env python3
"""Compares the bytes that builds of the models for different processors give.

    compare_bytes.py FUSED NAME=PROGRAM...

Each PROGRAM is print_bytes.cc built for a processor. All must print the same; FUSED, a build that
fuses multiplications with additions, must not: else the comparison would see nothing.
"""

import subprocess
import sys

# What /proc/cpuinfo must list for a build to run here; of others, nothing.
NEEDS = {
    "x86-64-v3": {"avx2", "fma", "bmi2", "f16c", "movbe"},
}
FUSED = "x86-64-v3"


def processor_flags():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("flags"):
                return set(line.split(":")[1].split())
    return set()


def run(program):
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()


def main():
    fused, *builds = sys.argv[1:]
    flags = processor_flags()
    printed = {}
    for build in builds:
        name, program = build.split("=", 1)
        if missing := NEEDS.get(name, set()) - flags:
            print(f"{name}: not run, this processor lacks {', '.join(sorted(missing))}")
            continue
        printed[name] = run(program)
    (first, lines), *others = printed.items()
    if not lines or not others:
        print("nothing to compare")
        return 1
    failed = False
    for name, other in others:
        for line, other_line in zip(lines, other):
            if line != other_line:
                print(f"{first} and {name} differ:\n  {line}\n  {other_line}")
                failed = True
        if len(lines) != len(other):
            print(f"{first} prints {len(lines)} lines, {name} {len(other)}")
            failed = True
    if not NEEDS[FUSED] - flags and run(fused) == lines:
        print("fused multiplications and additions went unseen")
        failed = True
    print(f"{len(lines)} hashes of {', '.join(printed)}: {'DIFFERENT' if failed else 'equal'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
