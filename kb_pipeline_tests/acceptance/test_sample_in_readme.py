"""What the README shows of ``make curate`` is what the sample's weeks print."""

from __future__ import annotations

import re

from kb_pipeline_tests.acceptance.sample_run import SampleRun
from kb_pipeline_tests.docs.pages import ROOT, blocks

SAID_BY_MAKE = "installing kb_pipeline and what it needs into .venv (a few minutes, once)"


def test_the_readme_shows_what_make_curate_prints(sample: SampleRun) -> None:
    (shown,) = [block.text for block in blocks(ROOT / "README.md") if block.info == "text" and "sample:" in block.text]
    imported, backfilled, last = sample.said
    assert f'"{SAID_BY_MAKE.replace(".venv", "$(VENV)")}"' in (ROOT / "Makefile").read_text("utf-8")
    weeks, summary = shown.split("\n\n", 1)
    first, rows, curating, *listed = weeks.splitlines()
    assert (first, rows) == (SAID_BY_MAKE, imported.out.splitlines()[0])
    assert curating == "curating the weeks from 2026-05-04 to 2026-10-26"
    printed = [line for line in backfilled.out.splitlines() if re.match(r"\d{4}-\d\d-\d\d ", line)]
    assert listed[:2] == printed[:2]
    assert listed[2] == "…"
    assert listed[3] == printed[-1]
    done = re.match(
        r"2026-10-26  ok +486 entries +(\d+) admitted +(\d+) refused +(\d+) retired +(\d+) merged", listed[4]
    )
    assert done is not None

    def without_places(text: str) -> list[str]:
        text = re.sub(r"^Reports: .*?reports/", "Reports: reports/", text.strip(), flags=re.MULTILINE)
        return re.sub(r"kb rollback \S+$", "kb rollback RUN", text).splitlines()

    assert without_places(summary) == without_places(last.out)
    told = dict(re.findall(r"^  (retired|merged) +(\d+)", summary, re.MULTILINE))
    assert told == {"retired": done[3], "merged": done[4]}
