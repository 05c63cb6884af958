"""The frames that flow between steps: every column with its type, whether it may be null, and what it means.

Belongs here: shape. Does not belong here: how a column is computed (the stage says that). A frame is checked against its
schema whenever it is written or read between two steps, and Dagster shows the same columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from kb_pipeline.errors import KbError

Time = pl.Datetime("us", "UTC")
Texts = pl.List(pl.String)


class SchemaError(KbError):
    """A frame that does not fit its schema: a fault of the pipeline, never of the user's data."""

    def __init__(self, schema: str, problems: Sequence[str]) -> None:
        super().__init__(f"frame {schema}: " + "; ".join(problems))


@dataclass(frozen=True)
class Column:
    """One column: type, nullability, meaning."""

    dtype: pl.DataType | type[pl.DataType]
    meaning: str
    nullable: bool = False


@dataclass(frozen=True)
class FrameSchema:
    """A named set of columns and the columns that identify a row."""

    name: str
    meaning: str
    columns: Mapping[str, Column]
    key: tuple[str, ...] = ()

    @property
    def polars(self) -> pl.Schema:
        """Column names and types, as Polars wants them."""
        return pl.Schema({name: column.dtype for name, column in self.columns.items()})

    def empty(self) -> pl.DataFrame:
        """A frame of this schema without rows."""
        return pl.DataFrame(schema=self.polars)

    def build(self, rows: Any) -> pl.DataFrame:
        """A frame of this schema from rows (sequence of mappings)."""
        return pl.DataFrame(rows, schema=self.polars)

    def select(self, frame: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        """The schema's columns of ``frame``, in order and cast to their types, checked."""
        cast = frame.select(pl.col(name).cast(column.dtype) for name, column in self.columns.items())
        collected = cast.collect() if isinstance(cast, pl.LazyFrame) else cast
        self.check(collected)
        return collected

    def problems(self, frame: pl.DataFrame) -> list[str]:
        """Everything about ``frame`` that does not fit; empty when all is well."""
        found = []
        expected = self.polars
        missing = [name for name in expected if name not in frame.columns]
        extra = [name for name in frame.columns if name not in expected]
        if missing:
            found.append(f"missing columns {missing}")
        if extra:
            found.append(f"unexpected columns {extra}")
        for name, column in self.columns.items():
            if name in missing:
                continue
            if frame.schema[name] != column.dtype:
                found.append(f"column {name} has type {frame.schema[name]}, expected {column.dtype}")
            elif not column.nullable and (nulls := frame[name].null_count()):
                found.append(f"column {name} holds {nulls} nulls")
        if self.key and not missing and (twice := frame.height - frame.select(self.key).n_unique()):
            found.append(f"{twice} rows repeat the key {list(self.key)}")
        return found

    def check(self, frame: pl.DataFrame) -> None:
        """Raises SchemaError when ``frame`` does not fit."""
        if found := self.problems(frame):
            raise SchemaError(self.name, found)


def _id(meaning: str, *, nullable: bool = False) -> Column:
    return Column(pl.String, meaning, nullable)


ENTRIES = FrameSchema(
    "knowledge_entries",
    "every entry as it stood at the end of the week, by id",
    {
        "entry_id": _id("the entry"),
        "kind": Column(pl.String, "what sort of knowledge"),
        "tenant": Column(pl.String, "owner of the entry", nullable=True),
        "repository": Column(pl.String, "repository it is about", nullable=True),
        "module": Column(pl.String, "module it is about", nullable=True),
        "scope": Column(pl.String, "tenant, repository, module and the policy's scope fields as one key"),
        "title": Column(pl.String, "title, or the body's first line"),
        "text": Column(pl.String, "all text of the entry, as every step reads it"),
        "content_hash": Column(pl.String, "SHA-256 of the text fields"),
        "confidence": Column(pl.Float64, "the entry's own confidence, 0-1", nullable=True),
        "pinned": Column(pl.Boolean, "pinned by a person"),
        "keep_distinct": Column(pl.Boolean, "never a duplicate candidate"),
        "review_state": Column(pl.String, "what a person said of it"),
        "sensitivity": Column(pl.String, "who may see it"),
        "created_at": Column(Time, "when it was written down", nullable=True),
        "updated_at": Column(Time, "when it was last changed", nullable=True),
        "expires_at": Column(Time, "when its time is over", nullable=True),
        "last_validated_at": Column(Time, "when it was last found to hold", nullable=True),
        "first_effective_at": Column(Time, "when the corpus first held it"),
        "state": Column(pl.String, "state before this run"),
        "state_reason": Column(pl.String, "why it is in this state", nullable=True),
        "state_changed_at": Column(Time, "since when"),
        "merged_into": _id("the entry it was merged into", nullable=True),
        "conflict_state": Column(pl.String, "whether it stands in an open conflict"),
        "attempts": Column(pl.Int64, "uses with a known outcome"),
        "successes": Column(pl.Int64, "of these, successful ones"),
        "retrievals": Column(pl.Int64, "times it was retrieved"),
        "last_matched_at": Column(Time, "last time it was retrieved, included or cited", nullable=True),
        "last_retrieved_at": Column(Time, "last time it was retrieved", nullable=True),
        "evidence_count": Column(pl.Int64, "pieces of evidence"),
        "has_title": Column(pl.Boolean, "a title is given in its own field"),
        "has_rationale": Column(pl.Boolean, "a rationale is given in its own field"),
        "step_count": Column(pl.Int64, "steps given in their own field"),
        "supersedes": Column(Texts, "entries that it says it replaces"),
        "generated_from": Column(Texts, "what it was generated from"),
        "validate_days": Column(pl.Float64, "its own invalidation_policy: to be validated so often", nullable=True),
        "kept_rules": Column(Texts, "rules that a person has set aside for this text"),
        "exact_key": Column(pl.String, "hash of the text after exact normalisation", nullable=True),
        "merge_key": Column(pl.String, "hash of canonical sequence and ledger: equal keys may merge", nullable=True),
        "secret_kinds": Column(Texts, "kinds of secret found in the text"),
        "addresses_judge": Column(pl.Boolean, "the text speaks to a judge instead of stating knowledge"),
    },
    key=("entry_id",),
)

DISTINCTIVENESS = FrameSchema(
    "distinctiveness_scores",
    "share of each entry's tokens that are not common in its tenant's corpus (K5)",
    {
        "entry_id": _id("the entry"),
        "token_count": Column(pl.Int64, "unique tokens of the entry"),
        "distinctiveness": Column(pl.Float64, "0-1; null for an entry without tokens or not live", nullable=True),
        "distinctiveness_reason": Column(pl.String, "why there is no score", nullable=True),
    },
    key=("entry_id",),
)

GATES = FrameSchema(
    "gate_results",
    "what each gate says of every live entry; only candidates are decided (K1-K4)",
    {
        "entry_id": _id("the entry"),
        "name_chars": Column(pl.Int64, "code points of the trimmed title"),
        "max_similarity": Column(
            pl.Float64, "highest cosine with an active entry of its scope and kind", nullable=True
        ),
        "nearest_id": _id("that entry", nullable=True),
        "gate_reasons": Column(Texts, "gates that the entry does not pass"),
        "gate_decision": Column(
            pl.String, "admit, refuse, strengthen or review; null where no candidate", nullable=True
        ),
    },
    key=("entry_id",),
)

QUALITY = FrameSchema(
    "quality_scores",
    "how well an entry does and how fresh it is (K11, K12, K18)",
    {
        "entry_id": _id("the entry"),
        "performance_ci_lower": Column(pl.Float64, "lower bound of the success rate, 0-1"),
        "performance_ci_upper": Column(pl.Float64, "upper bound of the success rate, 0-1"),
        "freshness": Column(pl.Float64, "0-1, halves with every half-life of the kind"),
        "staleness_days": Column(pl.Float64, "days without a match, idle days of the corpus left out", nullable=True),
    },
    key=("entry_id",),
)

RETIREMENT = FrameSchema(
    "retirement_decisions",
    "which active entries are to be archived, and which a protection saves (K11, K12, K17)",
    {
        "entry_id": _id("the entry"),
        "retire_reasons": Column(Texts, "rules that would retire the entry"),
        "protected_because": Column(Texts, "what protects it"),
        "retire_decision": Column(pl.String, "retire, review or keep"),
    },
    key=("entry_id",),
)

FLAGS = FrameSchema(
    "quality_flags",
    "what is wrong with an entry on its own, by rule (P7)",
    {
        "entry_id": _id("the entry"),
        "flag_reasons": Column(Texts, "rules that speak against the entry, the weightiest first"),
        "flag_severity": Column(pl.String, "urgency of the most urgent one", nullable=True),
        "flag_value": Column(pl.Float64, "order of the questions, higher first", nullable=True),
        "gone_references": Column(Texts, "ids that it points at and why they are gone"),
    },
    key=("entry_id",),
)

EMBEDDINGS = FrameSchema(
    "entry_embeddings",
    "which texts have vectors of the model in force; the vectors themselves stand in the cache",
    {
        "entry_id": _id("the entry"),
        "content_hash": Column(pl.String, "text the vectors belong to"),
        "window_count": Column(pl.Int64, "vectors of the text; 0 when the model finds nothing to encode"),
    },
    key=("entry_id",),
)

PAIRS = FrameSchema(
    "duplicate_pairs",
    "pairs of active entries of one scope and kind that may say the same (K6-K8)",
    {
        "entry_id_l": _id("the smaller id"),
        "entry_id_r": _id("the larger id"),
        "similarity": Column(pl.Float64, "best cosine of any two windows", nullable=True),
        "band": Column(pl.String, "exact, merge, borderline or lexical"),
        "word_similarity": Column(pl.Float64, "TF-IDF cosine of the words of a lexical pair", nullable=True),
    },
    key=("entry_id_l", "entry_id_r"),
)

VERDICTS = FrameSchema(
    "judge_verdicts",
    "what the judge says of every pair (K9)",
    {
        **PAIRS.columns,
        "verdict": Column(pl.String, "MERGE, KEEP_BOTH, CONFLICT, SUPERSEDES or UNSURE"),
        "reason": Column(pl.String, "reason code"),
        "judge": Column(pl.String, "who judged"),
        "judge_confidence": Column(pl.Float64, "the judge's confidence, 0-1", nullable=True),
        "explanation": Column(pl.String, "the judge's own sentence", nullable=True),
        "failed": Column(pl.Boolean, "the judge failed on this pair"),
        "from_cache": Column(pl.Boolean, "the verdict was given in an earlier run"),
        "specifics_only_l": Column(Texts, "numbers, names, negations that only the left text has"),
        "specifics_only_r": Column(Texts, "the same for the right text"),
        "superseded_side": Column(pl.String, "l or r: the text that is out of date, with SUPERSEDES", nullable=True),
        "suggested_body": Column(pl.String, "a text for both that passed its checks", nullable=True),
        "body_fault": Column(pl.String, "why the text that the judge suggested was refused", nullable=True),
    },
    key=("entry_id_l", "entry_id_r"),
)

MERGES = FrameSchema(
    "merge_plan",
    "which entry goes into which, and which merges a person must decide (X1, X3, K10)",
    {
        "loser_id": _id("the entry that would be archived"),
        "winner_id": _id("the entry that stays"),
        "similarity": Column(pl.Float64, "best cosine of the two", nullable=True),
        "verdict": Column(pl.String, "what the judge said"),
        "judge": Column(pl.String, "who judged"),
        "reason": Column(pl.String, "why it is merged or queued"),
        "merge_decision": Column(pl.String, "merge or review"),
        "explanation": Column(pl.String, "the judge's own sentence", nullable=True),
        "suggested_body": Column(pl.String, "a text for both that passed its checks", nullable=True),
    },
    key=("loser_id", "winner_id"),
)

REPLACED = FrameSchema(
    "replaced_entries",
    "entries that another one says it takes the place of (P2)",
    {
        "entry_id": _id("the entry that would be superseded"),
        "superseded_by": _id("the entry that says so"),
        "reason": Column(pl.String, "reason code"),
        "value": Column(pl.Float64, "order of the questions, higher first"),
    },
    key=("entry_id", "superseded_by"),
)

OUTDATED = FrameSchema(
    "outdated_entries",
    "entries of which somebody should say whether they still hold (P4, M12)",
    {
        "entry_id": _id("the entry"),
        "reason": Column(pl.String, "reason code"),
        "severity": Column(pl.String, "low, medium or high"),
        "explanation": Column(pl.String, "since when, in words", nullable=True),
        "occasion": Column(pl.String, "what makes this another question than the one before"),
        "value": Column(pl.Float64, "order of the questions, higher first"),
    },
    key=("entry_id",),
)

CONFLICTS = FrameSchema(
    "conflict_records",
    "pairs of entries that contradict each other (M8)",
    {
        "conflict_id": _id("derived from the texts"),
        "conflict_type": Column(pl.String, "contradiction or value_mismatch"),
        "severity": Column(pl.String, "low, medium or high"),
        "entry_id_l": _id("the smaller id"),
        "entry_id_r": _id("the larger id"),
        "content_hash_l": Column(pl.String, "text of the one"),
        "content_hash_r": Column(pl.String, "text of the other"),
        "similarity": Column(pl.Float64, "best cosine of the two", nullable=True),
        "reason": Column(pl.String, "reason code"),
        "judge": Column(pl.String, "who judged"),
        "explanation": Column(pl.String, "what differs, in words", nullable=True),
    },
    key=("conflict_id",),
)

PLAN = FrameSchema(
    "curation_plan",
    "every action of the run, before anything is applied",
    {
        "action_id": _id("derived from corpus, week, time, policy, entry, action and epoch"),
        "action": Column(
            pl.String, "admit, refuse, strengthen, retire, merge, open_conflict, close_conflict or recommend"
        ),
        "entry_id": _id("the entry that changes"),
        "other_entry_id": _id("the other entry of the action", nullable=True),
        "reason": Column(pl.String, "reason code"),
        "rule": Column(pl.String, "policy key of the rule"),
        "from_state": Column(pl.String, "state before", nullable=True),
        "to_state": Column(pl.String, "state after", nullable=True),
        "content_hash": Column(pl.String, "text the decision is about"),
        "other_content_hash": Column(pl.String, "text of the other entry", nullable=True),
        "conflict_id": Column(pl.String, "the conflict that is opened or closed", nullable=True),
        "similarity": Column(pl.Float64, "cosine of the two", nullable=True),
        "verdict": Column(pl.String, "the judge's verdict", nullable=True),
        "judge": Column(pl.String, "who judged", nullable=True),
        "recommendation_type": Column(pl.String, "what a person is asked", nullable=True),
        "severity": Column(pl.String, "how urgently", nullable=True),
        "explanation": Column(pl.String, "in words", nullable=True),
        "value": Column(pl.Float64, "order in the queue, higher first", nullable=True),
        "occasion": Column(pl.String, "what makes a question about the same texts another one", nullable=True),
        "suggested_body": Column(pl.String, "the text that a question suggests for both", nullable=True),
    },
    key=("action_id",),
)

APPLIED = FrameSchema(
    "applied_actions",
    "the actions of the week and whether this run or an earlier one wrote them",
    {
        "action_id": _id("the action"),
        "action": Column(pl.String, "what was done"),
        "entry_id": _id("the entry"),
        "other_entry_id": _id("the other entry of the action", nullable=True),
        "to_state": Column(pl.String, "state after", nullable=True),
        "applied_now": Column(pl.Boolean, "written by this run; false when a re-run found it done"),
    },
    key=("action_id",),
)

QUEUE = FrameSchema(
    "review_queue",
    "what waits for a person at the end of the run",
    {
        "recommendation_id": _id("derived from type and texts"),
        "recommendation_type": Column(pl.String, "what is asked"),
        "severity": Column(pl.String, "how urgently"),
        "entry_ids": Column(Texts, "the entries"),
        "content_hashes": Column(Texts, "their texts"),
        "reason": Column(pl.String, "reason code"),
        "explanation": Column(pl.String, "in words", nullable=True),
        "suggested_body": Column(pl.String, "the text that it suggests for both", nullable=True),
        "value": Column(pl.Float64, "order, higher first", nullable=True),
        "since": Column(Time, "when it was first asked"),
    },
    key=("recommendation_id",),
)

_ALL = (
    ENTRIES, DISTINCTIVENESS, GATES, QUALITY, RETIREMENT, FLAGS, EMBEDDINGS, PAIRS, VERDICTS, MERGES, CONFLICTS, PLAN, APPLIED,
    QUEUE,
)  # fmt: skip
FRAMES: dict[str, FrameSchema] = {schema.name: schema for schema in _ALL}
