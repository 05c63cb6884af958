"""Pairs by shared words: which the dedup stage adds, in which band, and which of them may ask a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest

from kb_pipeline import schemas
from kb_pipeline.policy.model import DedupPolicy, Thresholds
from kb_pipeline.stages.dedup import DuplicateSearch, find_duplicates
from kb_pipeline.stages.dedup_words import limit_questions, strongest_first, weighted_words
from kb_pipeline_tests.fakes.frames import entries, frame, policy

SAID = "Rotate the signing key of the harbour gateway every ninety days"
AGAIN = "Every ninety days the harbour gateway gets another signing key"
OTHER = (
    "Crane seven lifts containers from the feeder quay",
    "The night desk opens the barrier before the shift bell",
    "Reefer racks are counted twice by the planning board",
)
LIMITS = Thresholds(min_merge_similarity=0.92, min_borderline_similarity=0.85, min_intake_similarity=0.85)


def rules(**values: Any) -> DedupPolicy:
    """Policy without a floor of the mean, unless it is asked for: most vectors of these tests have nothing in common."""
    return policy(dedup={"min_word_pair_score": 0} | values).dedup


def row(entry_id: str, text: str, **values: Any) -> dict[str, Any]:
    return {"id": entry_id, "title": text, "merge_key": f"key of {text}"} | values


def search(
    *rows: Mapping[str, Any],
    cosines: Mapping[tuple[str, str], float] | None = None,
    without_vectors: tuple[str, ...] = (),
    retired: tuple[str, ...] = (),
    rule: DedupPolicy | None = None,
    around: tuple[str, ...] | None = None,
) -> DuplicateSearch:
    """The search over some entries whose vectors are orthogonal, but for pairs with a cosine of their own."""
    found = entries(*rows)
    ids = found["entry_id"].to_list()
    vectors = np.eye(len(ids), dtype=np.float32)
    for (left, right), cosine in (cosines or {}).items():
        one, other = ids.index(left), ids.index(right)
        vectors[other] = 0
        vectors[other, one], vectors[other, other] = cosine, (1 - cosine**2) ** 0.5
    owner = np.array([place for place, entry in enumerate(ids) if entry not in without_vectors], np.int64)
    decided = [{"entry_id": entry, "retire_decision": "retire" if entry in retired else "keep"} for entry in ids]
    return find_duplicates(
        found,
        frame(schemas.RETIREMENT, decided),
        vectors[owner],
        owner,
        rule or rules(),
        LIMITS,
        around=None if around is None else pl.Series(around, dtype=pl.String),
    )


def bands(found: DuplicateSearch) -> dict[tuple[str, str], str]:
    return {(left, right): band for left, right, band in found.pairs.select("entry_id_l", "entry_id_r", "band").rows()}


def others(**values: Any) -> list[dict[str, Any]]:
    return [row(f"x{number}", text, **values) for number, text in enumerate(OTHER)]


def test_the_same_in_other_words_is_found_with_both_similarities() -> None:
    found = search(row("a", SAID), row("b", AGAIN), *others(), cosines={("a", "b"): 0.6})
    ((left, right, similarity, band, word_similarity),) = found.pairs.rows()
    assert (left, right, band) == ("a", "b", "lexical")
    assert similarity == pytest.approx(0.6, abs=1e-5)
    assert 0.5 < word_similarity < 1
    assert found.dropped_count == 0
    assert not search(row("a", SAID), row("b", AGAIN), *others(), rule=rules(word_neighbours=0)).pairs.height


def test_the_word_similarity_is_the_cosine_of_rare_words() -> None:
    texts = {"a": "tide gauge alpha", "b": "tide gauge beta", "c": "tide table", "d": "gate"}
    found = search(
        *(row(entry, text) for entry, text in texts.items()), rule=rules(min_word_similarity=0.1, min_word_pair_score=0)
    )
    once, twice, thrice = (np.log(5 / (1 + count)) + 1 for count in (1, 2, 3))
    shared = thrice**2 + twice**2
    pairs = {(left, right): value for left, right, *_, value in found.pairs.rows()}
    assert pairs["a", "b"] == pytest.approx(shared / (shared + once**2), abs=1e-5)
    assert pairs["a", "c"] == pytest.approx(
        thrice**2 / (shared + once**2) ** 0.5 / (thrice**2 + once**2) ** 0.5, abs=1e-5
    )


@pytest.mark.parametrize(
    ("cosine", "band"), [(0.95, "merge"), (0.92, "merge"), (0.86, "borderline"), (0.84, "lexical")]
)
def test_a_pair_that_the_vectors_found_keeps_its_band(cosine: float, band: str) -> None:
    found = search(row("a", SAID), row("b", AGAIN), *others(), cosines={("a", "b"): cosine})
    assert bands(found) == {("a", "b"): band}
    assert (found.pairs["word_similarity"].null_count() == 0) == (band == "lexical")


def test_equal_texts_stay_exact_and_one_of_them_stands_for_all() -> None:
    found = search(row("a", SAID), row("b", SAID), row("c", SAID), row("d", AGAIN), *others())
    assert bands(found) == {("a", "b"): "exact", ("a", "c"): "exact", ("a", "d"): "lexical"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"tenant": "north"}, {"tenant": "south"}),
        ({"tenant": "north"}, {}),
        ({"repository": "quay"}, {"repository": "yard"}),
        ({"module": "gate"}, {}),
        ({"scope": "linux"}, {"scope": "windows"}),
        ({"kind": "rule"}, {"kind": "convention"}),
        ({}, {"state": "archived"}),
        ({}, {"state": "candidate"}),
        ({}, {"state": "needs_review"}),
        ({}, {"keep_distinct": True}),
    ],
)
def test_blocks_never_meet(one: dict[str, Any], other: dict[str, Any]) -> None:
    apart = search(row("a", SAID, **one), row("b", AGAIN, **other), row("c", AGAIN + " again", **other))
    assert not {("a", "b"), ("a", "c")} & bands(apart).keys()
    together = search(row("a", SAID, **one), row("b", AGAIN, **one))
    assert bands(together) == {("a", "b"): "lexical"}


def test_what_is_retired_in_this_run_is_no_candidate() -> None:
    assert bands(search(row("a", SAID), row("b", AGAIN))) == {("a", "b"): "lexical"}
    assert not bands(search(row("a", SAID), row("b", AGAIN), retired=("b",)))


def test_words_are_counted_by_tenant_over_its_live_entries() -> None:
    found = entries(
        row("a", "tide gauge", tenant="north"), row("b", "tide", tenant="north"), row("c", "tide", tenant="south"),
        row("d", "tide", tenant="north", state="archived"), row("e", "tide", tenant="north", state="candidate"),
        row("f", "tide"), row("g", "tide gauge"),
    )  # fmt: skip
    weights = {(row, token): weight for row, token, weight in weighted_words(found).rows()}
    assert weights[0, "tide"] == weights[1, "tide"] == weights[4, "tide"] == 1.0
    assert weights[0, "gauge"] == pytest.approx(np.log(4 / 2) + 1)
    assert weights[2, "tide"] == weights[5, "tide"] == 1.0
    assert weights[6, "gauge"] == pytest.approx(np.log(3 / 2) + 1)
    assert 3 not in {row for row, _ in weights}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("备份任务在每个星期日的凌晨运行", "每个星期日凌晨都会运行备份任务"),
        ("バックアップは毎週日曜日の早朝に実行する", "毎週日曜日の早朝にバックアップを実行"),
        ("สำรองข้อมูลทุกวันอาทิตย์ตอนเช้ามืด", "ทุกวันอาทิตย์ตอนเช้ามืดต้องสำรองข้อมูล"),
        ("Резервные копии создаются по воскресеньям ночью", "По воскресеньям ночью СОЗДАЮТСЯ резервные копии базы"),
        ("النسخ الاحتياطي يعمل كل يوم أحد", "كل يوم أحد يعمل النسخ الاحتياطي ليلا"),
        ("הגיבוי רץ בכל יום ראשון בלילה", "בכל יום ראשון בלילה הגיבוי רץ שוב"),
        ("बैकअप हर रविवार रात को चलता है", "हर रविवार रात बैकअप चलता है"),
    ],
)
def test_every_script_has_words(one: str, other: str) -> None:
    assert bands(search(row("a", one), row("b", other), *others())) == {("a", "b"): "lexical"}


def test_texts_of_common_words_alone_are_compared_too_and_texts_without_words_never() -> None:
    filler = [row(f"x{number}", f"the one of {text}") for number, text in enumerate(OTHER)]
    found = search(
        row("a", "the of and"), row("b", "and of the"), row("c", "!!!"), row("d", "…"), row("e", "!!! …"), *filler,
        rule=policy().dedup,
    )  # fmt: skip
    assert bands(found)["a", "b"] == "lexical"
    assert not {"c", "d", "e"} & {entry for pair in bands(found) for entry in pair}
    # Common words weigh little where a text has others.
    assert not any({"a", "b"} & set(pair) and pair[1].startswith("x") for pair in bands(found))


def test_around_some_entries_is_a_part_of_the_whole() -> None:
    rows = [
        row("a", SAID), row("b", AGAIN), row("c", f"{OTHER[0]} and back"), *others(),
        row("same-1", "The same text"), row("same-2", "The same text"),
    ]  # fmt: skip
    cosines = {("c", "x0"): 0.95}
    whole = search(*rows, cosines=cosines)
    assert bands(whole) == {("a", "b"): "lexical", ("c", "x0"): "merge", ("same-1", "same-2"): "exact"}
    for one in whole.pairs.iter_rows(named=True):
        for side in ("entry_id_l", "entry_id_r"):
            found = search(*rows, cosines=cosines, around=(one[side], "x2"))
            assert found.pairs.rows(named=True) == [one]
    assert search(*rows, cosines=cosines, around=("x1", "unknown")).pairs.is_empty()
    assert search(*rows, cosines=cosines, around=()).pairs.is_empty()


def test_around_an_entry_a_shared_title_is_enough() -> None:
    title = "Lock-out of the Harbour Gate"
    rows = [
        row("a", title, body="It holds from dusk to dawn whenever the signal tower is dark, whatever the tide does."),
        row("b", title.upper().replace("-", " "), body="Whoever loses a key tells the desk and signs for the new one."),
        row("c", title, kind="rule", body="Nobody climbs it."),
        *others(),
    ]
    assert ("a", "b") not in bands(search(*rows, rule=rules(min_word_similarity=0.9)))
    assert bands(search(*rows, rule=rules(min_word_similarity=0.9), around=("b",))) == {("a", "b"): "lexical"}
    # A title that many share is a label.
    many = [row(f"m{number}", title, body=f"Remark number {number} of the {OTHER[number % 3]}") for number in range(12)]
    assert bands(search(*rows, *many, rule=rules(min_word_similarity=0.9), around=("b",))) == {}


def test_an_empty_corpus_and_one_entry_have_no_pairs() -> None:
    assert search(row("a", SAID)).pairs.equals(schemas.PAIRS.empty())
    nothing = find_duplicates(
        schemas.ENTRIES.empty(), schemas.RETIREMENT.empty(), np.empty((0, 4), np.float32), np.empty(0, np.int64),
        rules(), LIMITS,
    )  # fmt: skip
    assert nothing.pairs.equals(schemas.PAIRS.empty())


def test_entries_without_vectors_are_found_by_their_words() -> None:
    found = search(row("a", SAID), row("b", AGAIN), *others(), without_vectors=("b",))
    assert found.pairs.select("entry_id_l", "entry_id_r", "similarity", "band").rows() == [("a", "b", None, "lexical")]
    assert found.unseen_count == 1


def test_neighbours_and_floor_say_how_many_are_found() -> None:
    alike = [row(f"e{number}", f"{SAID} on site {name}") for number, name in enumerate("abcdefgh")]
    one, two, many = (search(*alike, rule=rules(word_neighbours=count)).pairs for count in (1, 2, 100))
    assert one.height < two.height < many.height == 28
    assert not search(*alike, rule=rules(min_word_similarity=0.99)).pairs.height


@pytest.mark.parametrize(("cosine", "is_found"), [(0.0, False), (0.2, False), (0.3, True), (0.6, True)])
def test_cosine_and_words_together_must_be_near_enough(cosine: float, is_found: bool) -> None:
    rows, near = [row("a", SAID), row("b", AGAIN), *others()], {("a", "b"): cosine}
    (pair,) = search(*rows, cosines=near, rule=rules()).pairs.rows()
    words = pair[-1]
    floor = (0.25 + words) / 2
    assert bool(bands(search(*rows, cosines=near, rule=rules(min_word_pair_score=floor)))) is is_found
    # A text without vectors is measured by its words alone.
    unseen = search(*rows, without_vectors=("b",), rule=rules(min_word_pair_score=words - 0.01))
    assert bands(unseen) == {("a", "b"): "lexical"}
    assert not bands(search(*rows, without_vectors=("b",), rule=rules(min_word_pair_score=words + 0.01)))


def record(number: int) -> dict[str, Any]:
    lines = (
        "Agent: crane-{0}",
        "Capability: lead",
        "Failure reason: process {0}481 terminated",
        "Detected by: tier {0}",
    )
    return row(f"r{number}", "\n".join(lines).format(number))


def test_records_of_a_machine_are_not_looked_up_by_words() -> None:
    records = [record(at) for at in range(3)]
    told = [row("a", SAID), row("b", AGAIN)]
    assert bands(search(*records, *told)) == {("a", "b"): "lexical"}
    assert ("r0", "r1") in bands(search(*records, *told, rule=rules(skip_machine_records=False)))
    # Vectors still find them: how near is a question of its own.
    assert bands(search(*records, cosines={("r0", "r1"): 0.95})) == {("r0", "r1"): "merge"}


def test_the_limit_holds_for_both_signals_and_the_best_stay() -> None:
    rows = [row("a", SAID), row("b", AGAIN), row("c", f"{OTHER[0]} twice"), row("d", OTHER[0]), *others()[1:]]
    free = search(*rows, cosines={("a", "b"): 0.9})
    assert bands(free) == {("a", "b"): "borderline", ("c", "d"): "lexical"}
    tight = search(*rows, cosines={("a", "b"): 0.9}, rule=rules(max_pairs=1))
    assert bands(tight) == {("a", "b"): "borderline"} and tight.dropped_count == 1
    words_alone = search(*rows, rule=rules(max_pairs=1))
    assert bands(words_alone) == {("c", "d"): "lexical"} and words_alone.dropped_count == 1


def test_the_same_entries_give_the_same_pairs() -> None:
    rng = np.random.default_rng(4)
    vocabulary = [f"word{number}" for number in range(90)]
    rows = [
        row(f"e{number:03}", " ".join(rng.choice(vocabulary, 8)), tenant=f"t{number % 3}", module=f"m{number % 2}")
        for number in range(200)
    ]
    first = search(*rows)
    assert first.pairs.filter(pl.col("band") == "lexical").height > 20
    assert search(*reversed(rows)).pairs.equals(first.pairs)


# --- what may ask


def verdict(
    left: str, right: str, similarity: float | None = 0.7, word: float | None = 0.6, **more: Any
) -> dict[str, Any]:
    return {
        "entry_id_l": left, "entry_id_r": right, "similarity": similarity, "word_similarity": word, "band": "lexical",
        "verdict": "UNSURE", "reason": "judge.residue",
    } | more  # fmt: skip


def limited(*rows: dict[str, Any], size: int = 2, tenants: int = 1, **values: Any) -> list[tuple[str, str]]:
    held = entries(
        *(row(f"{letter}{n}", "x", tenant=f"t{t}") for t, letter in enumerate("abc"[:tenants]) for n in range(size))
    )
    table = frame(schemas.VERDICTS, rows)
    made = limit_questions(table, held, rules(**{"min_word_question_score": 0.6} | values))
    assert made.drop("verdict", "reason").equals(table.drop("verdict", "reason"))
    return list(made.select("verdict", "reason").iter_rows())


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        ({}, ("UNSURE", "judge.residue")),
        ({"similarity": 0.6}, ("UNSURE", "judge.residue")),
        ({"similarity": 0.59}, ("KEEP_BOTH", "judge.far_apart")),
        ({"similarity": 0.59, "reason": "judge.subset"}, ("KEEP_BOTH", "judge.far_apart")),
        ({"similarity": 0.59, "reason": "judge.budget_spent"}, ("KEEP_BOTH", "judge.far_apart")),
        ({"similarity": None}, ("UNSURE", "judge.residue")),
        ({"similarity": None, "word": 0.59}, ("KEEP_BOTH", "judge.far_apart")),
        (
            {"similarity": 0.1, "judge_confidence": 0.6, "reason": "judge.low_confidence"},
            ("UNSURE", "judge.low_confidence"),
        ),
        ({"similarity": 0.1, "verdict": "MERGE", "reason": "judge.same_rule"}, ("MERGE", "judge.same_rule")),
        ({"similarity": 0.1, "verdict": "CONFLICT", "reason": "judge.contradiction"}, ("CONFLICT", "judge.contradiction")),
        ({"similarity": 0.1, "verdict": "KEEP_BOTH", "reason": "judge.distinct"}, ("KEEP_BOTH", "judge.distinct")),
        ({"similarity": 0.1, "band": "borderline", "word": None}, ("UNSURE", "judge.residue")),
        ({"similarity": None, "band": "merge", "word": None}, ("UNSURE", "judge.residue")),
    ],
)  # fmt: skip
def test_an_unsettled_pair_asks_only_if_it_is_close_enough(pair: dict[str, Any], expected: tuple[str, str]) -> None:
    assert limited(verdict("a0", "a1", **pair)) == [expected]


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (("r0", "r1"), ("KEEP_BOTH", "judge.machine_records")),
        (("a", "r1"), ("UNSURE", "judge.residue")),
        (("a", "b"), ("UNSURE", "judge.residue")),
    ],
)
@pytest.mark.parametrize("band", ["merge", "borderline", "lexical"])
def test_two_records_of_a_machine_ask_nobody(pair: tuple[str, str], expected: tuple[str, str], band: str) -> None:
    held = entries(record(0), record(1), row("a", SAID), row("b", AGAIN))

    def asked(rule: DedupPolicy, **more: Any) -> tuple[str, str]:
        table = frame(schemas.VERDICTS, [verdict(*pair, 0.95, band=band, **more)])
        ((word, reason),) = limit_questions(table, held, rule).select("verdict", "reason").iter_rows()
        return word, reason

    assert asked(rules()) == expected
    assert asked(rules(skip_machine_records=False)) == ("UNSURE", "judge.residue")
    # What a model has read and doubts, and what a rule has decided, stays.
    assert asked(rules(), judge_confidence=0.6) == ("UNSURE", "judge.residue")
    assert asked(rules(), verdict="MERGE", reason="judge.exact") == ("MERGE", "judge.exact")


def test_the_best_of_a_tenant_ask_for_every_hundred_entries_begun() -> None:
    pairs = [verdict("a0", f"a{n}", similarity=0.7 + n / 100) for n in range(1, 6)]
    full, asked = ("KEEP_BOTH", "judge.queue_full"), ("UNSURE", "judge.residue")
    assert limited(*pairs, size=100, max_word_questions=2) == [full, full, full, asked, asked]
    assert limited(*pairs, size=101, max_word_questions=2) == [full, asked, asked, asked, asked]
    assert limited(*pairs, size=6, max_word_questions=0) == [full] * 5
    theirs = verdict("b0", "b1", similarity=0.61)
    assert limited(*pairs, theirs, size=100, tenants=2, max_word_questions=1) == [*[full] * 4, asked, asked]


def test_equally_good_questions_are_asked_by_id() -> None:
    pairs = [verdict("a0", "a2"), verdict("a0", "a1"), verdict("a1", "a2")]
    assert [made for made, _ in limited(*pairs, size=3, max_word_questions=2)] == ["UNSURE", "UNSURE", "KEEP_BOTH"]


def test_nothing_to_limit() -> None:
    assert limited() == []


def test_a_budget_is_spent_on_lexical_pairs_last_and_the_best_of_them_first() -> None:
    pairs = frame(
        schemas.PAIRS,
        [
            {"entry_id_l": "a", "entry_id_r": "b", "similarity": 0.6, "band": "lexical", "word_similarity": 0.5},
            {"entry_id_l": "a", "entry_id_r": "c", "similarity": 0.95},
            {"entry_id_l": "a", "entry_id_r": "d", "similarity": 0.5, "band": "lexical", "word_similarity": 0.9},
            {"entry_id_l": "a", "entry_id_r": "e", "similarity": 0.87, "band": "borderline"},
            {"entry_id_l": "a", "entry_id_r": "f", "similarity": None, "band": "lexical", "word_similarity": 0.9},
            {"entry_id_l": "a", "entry_id_r": "g", "similarity": 0.99},
        ],
    )
    assert strongest_first(pairs)["entry_id_r"].to_list() == ["c", "e", "g", "f", "d", "b"]
