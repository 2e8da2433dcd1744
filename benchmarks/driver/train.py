"""What one pass costs, against Vowpal Wabbit: on texts (texts.py) and on flights (flights.py)."""

import flights
import texts


def run(options):
    return texts.run(options) + flights.run(options)
