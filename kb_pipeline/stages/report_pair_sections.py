"""Sections of the page about pairs of entries: dedup, judge, merge, conflicts.

Belongs here: which pairs are shown as examples, and what is said of them.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from kb_pipeline.stages.report_blocks import Block, Cell, Figure, Pair, Pairs, Section, Table, Words, counted, number
from kb_pipeline.stages.report_diff import shortened
from kb_pipeline.stages.report_health import plural
from kb_pipeline.stages.report_rows import pair_rows
from kb_pipeline.stages.report_sections import MAX_ROWS, more
from kb_pipeline.stages.report_texts import EntryTexts
from kb_pipeline.stages.report_week import WeekData
from kb_pipeline.stages.report_words import BANDS, VERDICT_HEADS, VERDICTS, reason_words
from kb_pipeline.vocabulary import JUDGE_FAILURES, ActionType, Band, ReasonCode, Verdict

_TONES = {
    Verdict.MERGE: "good",
    Verdict.KEEP_BOTH: "",
    Verdict.CONFLICT: "bad",
    Verdict.SUPERSEDES: "warn",
    Verdict.UNSURE: "warn",
}
_SHOWN_CONFLICTS = 25


def pair_sections(week: WeekData, texts: EntryTexts) -> list[Section]:
    """The sections about pairs, in the order of the stages."""
    rows = pair_rows(week).with_row_index("rank")
    spoken = week.verdicts.select(
        "entry_id_l", "entry_id_r", "judge_confidence", "explanation", "failed", "suggested_body"
    )
    pairs = rows.join(spoken, on=["entry_id_l", "entry_id_r"], how="left").sort("rank")
    return [
        _dedup(week, pairs, texts),
        _judge(week, pairs),
        _merge(week, texts),
        _conflicts(week, texts),
    ]


def _dedup(week: WeekData, pairs: pl.DataFrame, texts: EntryTexts) -> Section:
    lead = (
        "Entries of one owner, repository and kind are compared with each other. Similarity is 1 for texts of the same "
        "meaning and near 0 for unrelated ones. It only says where to look: a similar pair may still contradict itself."
    )
    merge, borderline = (week.thresholds.get(f"min_{band}_similarity") for band in ("merge", "borderline"))
    ranges = {
        Band.EXACT: "equal after tidying layout and notation",
        Band.MERGE: "" if merge is None else f"similarity {merge:.2f} or more",
        Band.BORDERLINE: "" if borderline is None or merge is None else f"similarity {borderline:.2f} to {merge:.2f}",
        Band.LEXICAL: "they share rare words",
    }
    cosines = pairs.drop_nulls("similarity")
    blocks: list[Block] = []
    if cosines.height:
        close = cosines.filter(pl.col("similarity") >= (1.0 if merge is None else merge)).height
        summary = f"{plural(cosines.height, 'pair')} with a similarity; {close:,} of them in the most similar range."
        blocks.append(Figure("similarity", "Similarity of the pairs that were found", summary))
    counts = {(band, verdict): count for band, verdict, count in pairs.group_by("band", "verdict").len().iter_rows()}
    verdicts = [verdict for verdict in Verdict if any(key[1] == verdict for key in counts)]
    rows = [
        (
            Cell(BANDS[band], detail=ranges[band]),
            *(counted(counts.get((band.value, verdict.value), 0)) for verdict in verdicts),
            counted(pairs.filter(pl.col("band") == band).height),
        )
        for band in Band
        if any(key[0] == band for key in counts)
    ]
    heads = ("How close", *(VERDICT_HEADS[verdict] for verdict in verdicts), "All")
    blocks.append(Table("Pairs by closeness and verdict", heads, rows, empty="No two entries are close to each other."))
    for band in Band:
        here = pairs.filter(pl.col("band") == band)
        if here.height:
            shown = here.head(week.example_pairs)
            detail = f": {ranges[band]}" if ranges[band] else ""
            blocks.append(
                Pairs(
                    f"{BANDS[band]}{detail}",
                    [_pair(row, texts) for row in _loaded(shown, texts)],
                    unfolded=band is Band.MERGE,
                    more=more(here.height, shown.height, "pairs", "duplicate-pairs.yaml"),
                )
            )
    return Section("dedup", "Which entries may say the same?", lead, blocks)


def _judge(week: WeekData, pairs: pl.DataFrame) -> Section:
    counts = pairs.group_by("reason", "verdict").len().sort("len", "reason", descending=[True, False])
    rows = [
        (
            Cell(reason_words(reason)),
            Cell(VERDICTS[Verdict(verdict)], "mark", tone=_TONES[Verdict(verdict)]),
            counted(count, count / max(pairs.height, 1)),
        )
        for reason, verdict, count in counts.iter_rows()
    ]
    blocks: list[Block] = [
        Table("Why pairs were judged as they were", ("Reason", "Verdict", "Pairs"), rows, "No pair was judged.")
    ]
    failed = pairs.filter(pl.col("failed") | pl.col("reason").is_in([code.value for code in JUDGE_FAILURES])).height
    if failed:
        blocks.insert(
            0, Words(f"The judge failed on {plural(failed, 'pair')}; both entries of each were kept.", "warn")
        )
    if loud := int(week.entries["addresses_judge"].sum()):
        words = plural(loud, "entry speaks", "entries speak")
        blocks.append(Words(f"{words} to a judge instead of stating knowledge. Such texts are never sent to one."))
    lead = (
        f"Judge of this run: {week.header.judge}. Whatever a judge says, two texts are only merged on their own when "
        "their numbers, names and negations agree."
    )
    return Section("judge", "What was said of the pairs?", lead, blocks)


def _merge(week: WeekData, texts: EntryTexts) -> Section:
    done = week.plan.filter(pl.col("action") == ActionType.MERGE).sort("entry_id")
    shown = done.head(MAX_ROWS)
    texts.load([*shown["entry_id"], *shown["other_entry_id"].drop_nulls()])
    rows = [
        (
            texts.cell(row["entry_id"]),
            texts.cell(row["other_entry_id"]),
            Cell(reason_words(row["reason"])),
            Cell(number(row["similarity"], 2), "number"),
        )
        for row in shown.iter_rows(named=True)
    ]
    blocks: list[Block] = [
        Table(
            "Merged" if not week.halted else "Would have been merged",
            ("Archived", "Stays, and took over use and evidence", "Why", "Similarity"),
            rows,
            empty="No entries were merged.",
            more=more(done.height, shown.height, "merges", "memory-pruning-plan.yaml"),
        )
    ]
    recommended = pl.when(pl.col("merge_decision") == "merge").then(pl.lit(ReasonCode.MERGE_MODE_RECOMMEND.value))
    open_merges = (
        week.merges.filter((pl.col("merge_decision") != "merge") | pl.lit(week.recommends))
        .with_columns(recommended.otherwise("reason").alias("reason"))
        .sort("loser_id", "winner_id")
    )
    shown = open_merges.head(MAX_ROWS)
    texts.load([*shown["loser_id"], *shown["winner_id"]])
    blocks.append(
        Table(
            "Not merged without a person",
            ("Would be archived", "Would stay", "Why not"),
            [
                (texts.cell(row["loser_id"]), texts.cell(row["winner_id"]), Cell(reason_words(row["reason"])))
                for row in shown.iter_rows(named=True)
            ],
            empty="Every merge that was proposed was made.",
            more=more(open_merges.height, shown.height, "merges", "memory-review-queue.yaml"),
        )
    )
    lead = (
        "Of two entries that say the same, one stays: pinned before approved, then the more trusted, the more used, "
        "the older. It takes over use and evidence of the other, which is archived and can be brought back."
    )
    return Section("merge", "What became one?", lead, blocks)


def _conflicts(week: WeekData, texts: EntryTexts) -> Section:
    order = {"high": 0, "medium": 1, "low": 2}
    rows = week.conflicts.sort(pl.col("severity").replace_strict(order, default=3), "conflict_id")
    shown = rows.head(_SHOWN_CONFLICTS)
    opened = week.plan.filter(pl.col("action") == ActionType.OPEN_CONFLICT)
    new = set(opened.select("entry_id", "other_entry_id").iter_rows())
    conflict = {"verdict": Verdict.CONFLICT.value, "specifics_only_l": [], "specifics_only_r": []}
    found = [
        _pair(row | conflict | {"is_new": (row["entry_id_l"], row["entry_id_r"]) in new}, texts)
        for row in _loaded(shown, texts)
    ]
    block = Pairs(
        f"Open conflicts ({rows.height:,})" if rows.height else "Open conflicts",
        found,
        unfolded=True,
        more=more(rows.height, shown.height, "conflicts", "memory-conflicts.yaml"),
        empty="No conflict is open.",
    )
    lead = (
        "Two entries that contradict each other, or give different values for the same thing. Nothing decides that by "
        "rule: a person says which side holds."
    )
    return Section("conflicts", "What cannot both be true?", lead, [block])


def _loaded(rows: pl.DataFrame, texts: EntryTexts) -> list[dict[str, Any]]:
    texts.load([*rows["entry_id_l"], *rows["entry_id_r"]])
    return list(rows.iter_rows(named=True))


def _pair(row: dict[str, Any], texts: EntryTexts) -> Pair:
    """A pair with its verdict in words; what a judge wrote is left out where a text is withheld."""
    left, right = row["entry_id_l"], row["entry_id_r"]
    verdict = Verdict(row["verdict"])
    facts = [reason_words(row["reason"])]
    if row["similarity"] is not None:
        facts.append(f"Similarity {row['similarity']:.3f}.")
    if row.get("word_similarity") is not None:
        facts.append(f"Similarity of the words {row['word_similarity']:.3f}.")
    if severity := row.get("severity"):
        facts.append(f"Severity: {severity}.")
    if row.get("is_new"):
        facts.append("New in this run.")
    if row.get("judge_confidence") is not None:
        facts.append(f"Judged by {row['judge']}, {row['judge_confidence']:.0%} sure.")
        if row["explanation"] and left not in texts.shut and right not in texts.shut:
            facts.append(f"“{row['explanation']}”")
    if row.get("superseded_id") is not None:
        facts.append(f"The {'left' if row['superseded_id'] == left else 'right'} one is out of date.")
    if row.get("suggested_body") is not None:
        facts.append("A text for both is suggested; the review queue shows it.")
    for side, only in (("left", row["specifics_only_l"]), ("right", row["specifics_only_r"])):
        if only:
            facts.append(shortened(f"Specific to the {side}: {', '.join(only)}.", 200))
    side_l, side_r = texts.sides(left, right)
    return Pair(side_l, side_r, VERDICTS[verdict], _TONES[verdict], tuple(facts))
