"""Prints how often each flag is raised on real corpora: ``python bench/quality_flags.py [--show REASON]``.

Reads the corpora of the shared data folder (``KB_SHARED_DATA``, or ``../shared/data`` beside the repository) and the ids of
event records in its labels; nothing of them is kept. ``--show`` prints the entries that one rule flags, to be read.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from kb_pipeline.stages.flags import find_flags  # noqa: E402
from kb_pipeline.text.injection import addresses_judge  # noqa: E402
from kb_pipeline.text.normalise import entry_text  # noqa: E402
from kb_pipeline_tests.fakes.frames import entries, policy  # noqa: E402

CORPORA = ("agent_memory", "agent_rules", "skills_runbooks", "decisions", "til_facts", "tldr_examples")
SHOWN_CHARS = 600


def main() -> int:
    """Prints one line a corpus, and what was asked to be shown."""
    parser = argparse.ArgumentParser(description="How often each flag is raised on real corpora.")
    parser.add_argument("--show", metavar="REASON", default="", help="print the entries of this reason code")
    show = parser.parse_args().show
    folder = Path(os.environ.get("KB_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        sys.exit(f"{folder} is missing: set KB_SHARED_DATA to the folder of the corpora")
    for name in CORPORA:
        found = read_entries(folder / "corpora" / f"{name}.jsonl.gz")
        start = time.perf_counter()
        flags = find_flags(found, policy().flags)
        seconds = time.perf_counter() - start
        each = flags.select("entry_id", "flag_reasons").explode("flag_reasons").drop_nulls()
        counts = ", ".join(f"{code} {n}" for code, n in sorted(each["flag_reasons"].value_counts().iter_rows()))
        print(f"{name}: {found.height} entries, {seconds:.2f} s: {counts or 'none'}")
        if name == "agent_memory":
            noise = {row["id"] for row in read_rows(folder / "corpora_labels" / "event_log_noise.jsonl.gz")}
            raised = set(each.filter(pl.col("flag_reasons") == "flags.event_log")["entry_id"])
            right = len(raised & noise)
            print(f"  event records: {right} of {len(noise)} labelled found, {len(raised) - right} beside them")
        shown = each.filter(pl.col("flag_reasons") == show).join(found, on="entry_id").sort("entry_id")
        for text in shown["text"]:
            print("  -", " ".join(text[:SHOWN_CHARS].split()))
    return 0


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a packed JSONL file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read_entries(path: Path) -> pl.DataFrame:
    """ENTRIES of import rows, as far as flags read them."""
    return entries(
        *(
            {name: row[name] for name in ("id", "kind", "title", "body") if row.get(name)}
            | {
                "supersedes": row.get("supersedes") or [],
                "addresses_judge": addresses_judge(entry_text(row.get("title"), row.get("body"))),
            }
            for row in read_rows(path)
        )
    )


if __name__ == "__main__":
    sys.exit(main())
