"""The policy as frozen pydantic models: names, ranges and defaults of every threshold.

Belongs here: shape and ranges. The default values stand in ``policy.yaml`` alone, so every field is required here and a
missing key is an error. Does not belong here: reading files (``load``) and where things are (settings of ``defs``).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from kb_pipeline.errors import PolicyError
from kb_pipeline.policy.judging import CuratorPolicy, JudgePolicy
from kb_pipeline.policy.sections import Count, Days, Section, Share
from kb_pipeline.vocabulary import Kind, Mode


def _is_regex(pattern: str) -> str:
    # The gate matches with Polars, whose expressions know no look-around: what it cannot read is an error here.
    import polars as pl

    try:
        pl.Series([""]).str.contains(f"(?i){pattern}")
    except pl.exceptions.ComputeError as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {' '.join(str(error).split())}") from error
    return pattern


class EncoderPolicy(Section):
    """Which model turns texts into vectors (K16)."""

    model: Annotated[
        str, Field(description="`minilm`, or the path of a sentence-transformers model with a calibration")
    ]
    batch_size: Annotated[int, Field(ge=1, le=1024, description="texts encoded at once")]


class LoadPolicy(Section):
    """What an import accepts."""

    max_body_chars: Annotated[int, Field(ge=1, description="a longer body is rejected, never cut")]


class DistinctivenessPolicy(Section):
    """How many tokens count as common (K5)."""

    max_common_tokens: Annotated[Count, Field(description="at most so many tokens are common")]
    max_common_share: Annotated[Share, Field(description="and at most this share of the vocabulary")]


class GatesPolicy(Section):
    """What keeps a candidate out (K1-K4)."""

    min_name_chars: Annotated[Count, Field(description="K1: a shorter title is refused (code points, trimmed)")]
    generic_name_patterns: Annotated[
        tuple[Annotated[str, AfterValidator(_is_regex)], ...],
        Field(description="K2: a title that matches one of these (case ignored) is refused"),
    ]
    min_distinctiveness: Annotated[Share, Field(description="K3: a lower distinctiveness is refused")]
    min_intake_similarity: Annotated[
        Share | None,
        Field(
            description="K4: a candidate this close to an active entry strengthens it instead; null: the model's own"
        ),
    ]
    admit_to: Annotated[Literal["active", "approved"], Field(description="the state of an admitted candidate")]


class ScorePolicy(Section):
    """Performance interval (K11) and freshness (K18)."""

    interval_mass: Annotated[float, Field(gt=0, lt=1, description="K11: mass of the equal-tailed Beta interval")]
    half_life_days: Annotated[Days, Field(description="K18: freshness halves in so many days")]
    half_life_days_by_kind: Annotated[dict[Kind, Days], Field(description="K18: half-lives of single kinds")]


class RetirePolicy(Section):
    """When an active entry is archived (K11, K12) and what is spared (K17)."""

    min_attempts: Annotated[Count, Field(description="K11, K15: fewer attempts never retire")]
    max_ci_upper: Annotated[Share, Field(description="K11: retired below this upper bound of the success rate")]
    max_unmatched_days: Annotated[Days, Field(description="K12: retired at so many days without a match")]
    max_idle_days: Annotated[Days, Field(description="K12: days beyond this of a stretch without use do not count")]
    protected_kinds: Annotated[tuple[Kind, ...], Field(description="K17: kinds that no rule retires")]


class FlagsPolicy(Section):
    """What a person is asked about a single entry (P7)."""

    find_words_to_judge: Annotated[bool, Field(description="a text that tells a judge what to answer")]
    min_instructions: Annotated[
        Count,
        Field(
            description="a skill or runbook with fewer sentences that tell what to do, and no step, list or command; "
            "0: not asked about"
        ),
    ]
    require_rationale: Annotated[bool, Field(description="a decision that names no ground")]
    min_fact_words: Annotated[
        Count, Field(description="a fact without body whose title has fewer words; 0: not asked about")
    ]
    find_event_logs: Annotated[bool, Field(description="a machine's record of one occasion")]
    find_gone_references: Annotated[bool, Field(description="points at an entry that is unknown or out of use")]
    min_topics: Annotated[
        Count, Field(description="a short statement that names so many topics of its own; 0: not asked about")
    ]
    max_new_per_run: Annotated[
        Count,
        Field(description="new questions of this kind in a run, the best first; words to a judge are always asked"),
    ]


class SupersedePolicy(Section):
    """When a person is asked whether one entry takes the place of another (P2)."""

    find_declared: Annotated[bool, Field(description="an entry names another one of its scope in `supersedes`")]
    find_same_title: Annotated[
        bool, Field(description="two entries of one title, of which the later says that it replaces what was before")
    ]
    max_new_per_run: Annotated[Count, Field(description="new questions of this kind in a run, the best first")]


class RefreshPolicy(Section):
    """When a person is asked whether an entry still holds (P4, M12)."""

    find_expired: Annotated[bool, Field(description="M12: its `expires_at` has passed")]
    validate_days_by_kind: Annotated[
        dict[Kind, Days],
        Field(
            description="M12: an entry of this kind is asked about when nobody found it to hold for so many days; the "
            "clock starts with its creation"
        ),
    ]
    max_new_per_run: Annotated[Count, Field(description="new questions of this kind in a run, the best first")]


@dataclass(frozen=True)
class Thresholds:
    """The similarities in force for a model (K16): its calibration record, where policy does not say otherwise."""

    min_merge_similarity: float
    min_borderline_similarity: float
    min_intake_similarity: float


class DedupPolicy(Section):
    """How near-duplicates are found (K6)."""

    engine: Annotated[
        Literal["bounded", "faiss_flat", "faiss_ivf"],
        Field(description="`bounded` and `faiss_flat` are exact; `faiss_ivf` is approximate, its recall is measured"),
    ]
    approximate_above_rows: Annotated[int, Field(ge=1, description="`faiss_ivf` works exactly below this size")]
    min_merge_similarity: Annotated[
        Share | None, Field(description="K7: at or above, the judge decides on a merge; null: the model's own")
    ]
    min_borderline_similarity: Annotated[
        Share | None, Field(description="K8: from here on a pair is judged as borderline; null: the model's own")
    ]
    max_pairs: Annotated[
        int, Field(ge=1, description="at most so many pairs are kept; the report says how many fell off")
    ]
    word_neighbours: Annotated[
        int,
        Field(
            ge=0,
            le=100,
            description="an entry also finds so many others by shared words, the nearest (band `lexical`); 0: none",
        ),
    ]
    min_word_similarity: Annotated[float, Field(gt=0, le=1, description="and only from this TF-IDF cosine on")]
    min_word_pair_score: Annotated[
        Share, Field(description="and only if the mean of similarity and word similarity is at least this")
    ]
    skip_machine_records: Annotated[
        bool,
        Field(
            description="a machine's record of one occasion is not searched by shared words, and two are no question"
        ),
    ]
    min_word_question_score: Annotated[
        Share,
        Field(
            description="a pair found by words that no judge settles becomes a question if the mean of its similarity and "
            "its word similarity is at least this; below, both entries stay"
        ),
    ]
    max_word_questions: Annotated[
        Count, Field(description="and at most so many for every hundred active entries of a tenant, the best ones")
    ]


WinnerKey = Literal["pinned", "approved", "confidence", "usage", "older", "smaller_id"]


class MergePolicy(Section):
    """Which entry of a pair stays (K10), and which text for both a judge may suggest (X1)."""

    winner_order: Annotated[tuple[WinnerKey, ...], Field(description="K10: compared in this order; ends in smaller_id")]
    min_body_share: Annotated[
        Share, Field(description="X1: a suggested text shorter than this share of the shorter of the two is refused")
    ]
    max_body_share: Annotated[
        float,
        Field(
            gt=0, le=2, description="X1: so is one longer than this share of the two together, or load.max_body_chars"
        ),
    ]
    max_new_word_share: Annotated[
        Share, Field(description="X1: so is one of whose words more than this share stands in neither of the two")
    ]

    @model_validator(mode="after")
    def _is_total(self) -> MergePolicy:
        if len(set(self.winner_order)) != len(self.winner_order):
            raise ValueError("winner_order names a criterion twice")
        if not self.winner_order or self.winner_order[-1] != "smaller_id":
            raise ValueError("winner_order must end in smaller_id, or two entries could tie")
        return self


class ApplyPolicy(Section):
    """How much a run may change (X4)."""

    mode: Annotated[Mode, Field(description="`apply` what policy allows, or `recommend` all to the review queue")]
    max_changed_share: Annotated[
        Share,
        Field(description="X4: halt when more than this share of the active entries of a repository would change"),
    ]
    min_changed_entries: Annotated[Count, Field(description="X4: so many changes are always allowed")]


class ChecksPolicy(Section):
    """When checks warn, and how severe a failed check is."""

    max_distinctiveness_drift: Annotated[Share, Field(description="warn when the mean moves more than this in a week")]
    max_borderline_backlog: Annotated[Count, Field(description="warn when more borderline pairs wait")]
    severity: Annotated[
        dict[str, Literal["warn", "error"]], Field(description="severity of the checks that may be set")
    ]


class ReportPolicy(Section):
    """How much the report shows; the files hold everything up to the limits given here."""

    max_listed_pairs: Annotated[int, Field(ge=0, description="pairs in duplicate-pairs.yaml; the rest is counted")]
    example_pairs: Annotated[int, Field(ge=0, le=200, description="pairs shown side by side in each band")]


class EligibilityPolicy(Section):
    """What may be retrieved (M13)."""

    min_confidence: Annotated[Share, Field(description="M13: a lower confidence is left out; none at all is not low")]


class SearchPolicy(Section):
    """How `kb search` ranks, and what no run may make worse (X7)."""

    rank_offset: Annotated[
        int, Field(ge=1, description="X7: score = 1/(offset + rank by similarity) + 1/(offset + rank by words)")
    ]
    quality_weight: Annotated[
        float,
        Field(
            ge=0,
            le=0.5,
            description="X7: that score is multiplied by 1 - this at a quality score of 0, by 1 + this at 1; 0: quality "
            "plays no part",
        ),
    ]
    golden_queries: Annotated[
        str | None,
        Field(
            min_length=1,
            description="X7: file of queries with known answers; a relative path counts from the folder of the policy "
            "file, without one from the working directory; null: none",
        ),
    ]
    hits_within: Annotated[
        int, Field(ge=1, description="X7: a golden query is a hit with an answer among the first so many")
    ]
    max_golden_drop: Annotated[
        Share,
        Field(description="X7: halt when the hit rate or the mean reciprocal rank would fall by more than this"),
    ]


class Policy(Section):
    """All thresholds of a run. ``fingerprint`` names exactly these values in every output."""

    scope_fields: Annotated[
        tuple[str, ...],
        Field(description="extra fields of an entry that belong to its scope, beside tenant, repository, module"),
    ]
    encoder: EncoderPolicy
    load: LoadPolicy
    distinctiveness: DistinctivenessPolicy
    gates: GatesPolicy
    score: ScorePolicy
    retire: RetirePolicy
    flags: FlagsPolicy
    supersede: SupersedePolicy
    refresh: RefreshPolicy
    dedup: DedupPolicy
    judge: JudgePolicy
    merge: MergePolicy
    apply: ApplyPolicy
    checks: ChecksPolicy
    report: ReportPolicy
    curator: CuratorPolicy
    eligibility: EligibilityPolicy
    search: SearchPolicy

    def thresholds(self, merge: float, borderline: float) -> Thresholds:
        """The similarities in force, given the calibration record of the model (each 0-1).

        Raises:
            PolicyError: the borderline similarity lies above the merge similarity.
        """
        own_merge, own_borderline = self.dedup.min_merge_similarity, self.dedup.min_borderline_similarity
        merge = merge if own_merge is None else own_merge
        borderline = borderline if own_borderline is None else own_borderline
        if borderline > merge:
            raise PolicyError(
                "dedup", [f"min_borderline_similarity = {borderline} lies above min_merge_similarity = {merge}"]
            )
        intake = self.gates.min_intake_similarity
        return Thresholds(merge, borderline, borderline if intake is None else intake)

    @property
    def fingerprint(self) -> str:
        """First 16 hex digits of the SHA-256 of the canonical JSON of all values."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]
