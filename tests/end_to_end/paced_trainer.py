"""Runs a trainer in Python that makes a pause after each step, so that its job lasts on a fast machine, too.

Usage: paced_trainer.py MILLISECONDS TRAINER.py ARGUMENT...
"""

import functools
import runpy
import sys
import time

import millrace

pause, sys.argv = float(sys.argv[1]) / 1000, sys.argv[2:]
step = millrace.ParameterManager.step


@functools.wraps(step)
def paced_step(*args, **options):
    result = step(*args, **options)
    time.sleep(pause)
    return result


millrace.ParameterManager.step = paced_step
runpy.run_path(sys.argv[0], run_name="__main__")
