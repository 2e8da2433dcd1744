"""From a pandas frame to a streaming job to predictions.

Usage: frame_to_stream.py BROKERS FOLDER

Needs Kafka at BROKERS (scripts/kafka start), the programs (MILLRACE_BIN or PATH), and pandas.
"""

import sys

import numpy
import pandas

import millrace


def make_clicks(rows: int, seed: int) -> pandas.DataFrame:
    """Impressions of banners, and whether they were clicked."""
    draw = numpy.random.default_rng(seed)
    age = draw.integers(18, 80, rows)
    site = draw.choice(["news", "games", "mail"], rows)
    odds = 0.06 * (45 - age) + numpy.where(site == "games", 1.5, -0.5)
    clicked = draw.random(rows) < 1 / (1 + numpy.exp(-odds))
    return pandas.DataFrame({"age": age, "site": site, "clicked": numpy.where(clicked, "yes", "no")})


def main(brokers: str, folder: str) -> None:
    frame, later = make_clicks(4000, seed=1), make_clicks(1000, seed=2)

    # 1. Try it in this process: each row is predicted before it is learnt.
    learner = millrace.OnlineClassifier(label="clicked")
    learner.fit(frame.drop(columns="clicked"), frame["clicked"])
    print(f"in this process: log loss {learner.figures()['log_loss']:.3f}")

    # 2. Stream it: the same columns, rows from a topic. Somebody else could write them.
    sent = millrace.send(frame, "impressions", brokers)
    print(f"sent {sent} rows")
    job = millrace.Job(
        "clicks",
        columns=learner.columns_,
        training={"consistency": "eventual"},
        topic="impressions",
        source={"until_end": True},  # what the topic holds now; without it the stream goes on
        workers=1,
        brokers=brokers,
        folder=folder,
    )
    with job:
        job.wait()
        print(job.figures()[["rows", "log_loss", "accuracy"]])

    # 3. Predict by what the job has learnt.
    model = job.export(f"{folder}/model")
    right = model.predict(later) == later["clicked"]
    print(f"the job's model: {right.mean():.1%} of {len(later)} new rows are right")
    alike = numpy.abs(model.predict_proba(later) - learner.predict_proba(later)).max()
    print(f"it differs from the learner of this process by at most {alike:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
