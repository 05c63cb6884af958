"""Times the specifics ledger of 100,000 pairs of real texts on one core: ``python bench/ledger_speed.py [--data DIR]``.

Reads the corpora of the shared data folder (``KB_SHARED_DATA``, or ``../shared/data`` beside the repository); nothing of
them is kept. Pairs are drawn at random, with a fixed seed, among the texts of one corpus, in proportion to their number.
Two figures: both ledgers read anew for every pair, and each text's ledger read once and compared in all its pairs, as
runs do it. CPU seconds of one process with one thread.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from kb_pipeline.text.normalise import entry_text  # noqa: E402
from kb_pipeline.text.specifics import difference, specifics  # noqa: E402

CORPORA = ("agent_memory", "agent_rules", "tldr_examples", "lint_rules", "til_facts", "skills_runbooks", "decisions")


def texts_of(path: Path) -> list[str]:
    """Entry texts of a gzipped file of import rows, in its order."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = map(json.loads, lines)
        fields = ("title", "body", "rationale", "alternatives", "steps")
        return [entry_text(*(row.get(name) for name in fields)) for row in rows]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("KB_SHARED_DATA", REPOSITORY / "../shared/data"))
    )
    parser.add_argument("--pairs", type=int, default=100_000)
    options = parser.parse_args()
    corpora = {name: texts_of(options.data / "corpora" / f"{name}.jsonl.gz") for name in CORPORA}
    count = sum(map(len, corpora.values()))
    rng = random.Random(3)
    print(f"{'corpus':18}{'texts':>8}{'chars':>7}{'pairs':>9}{'anew':>9}{'once':>9}  CPU seconds")
    sums = [0, 0.0, 0.0]
    for name, texts in corpora.items():
        wanted = round(options.pairs * len(texts) / count)
        pairs = [(rng.randrange(len(texts)), rng.randrange(len(texts))) for _ in range(wanted)]
        started = time.process_time()
        for left, right in pairs:
            difference(specifics(texts[left]), specifics(texts[right]))
        anew = time.process_time() - started
        started = time.process_time()
        ledgers = {place: specifics(texts[place]) for place in {place for pair in pairs for place in pair}}
        for left, right in pairs:
            difference(ledgers[left], ledgers[right])
        once = time.process_time() - started
        chars = sum(map(len, texts)) // len(texts)
        print(f"{name:18}{len(texts):>8}{chars:>7}{wanted:>9}{anew:>9.1f}{once:>9.1f}", flush=True)
        sums = [sums[0] + wanted, sums[1] + anew, sums[2] + once]
    print(f"{'all':18}{count:>8}{'':>7}{sums[0]:>9}{sums[1]:>9.1f}{sums[2]:>9.1f}")


if __name__ == "__main__":
    main()
