"""The policy as frozen pydantic models: names, ranges and defaults of every threshold.

Belongs here: shape and ranges. The default values stand in ``policy.yaml`` alone, so every field is required here and a
missing key is an error. Does not belong here: reading files (``load``) and where things are (settings of ``defs``).
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from kb_pipeline.errors import PolicyError
from kb_pipeline.vocabulary import Kind, Mode

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=0)]
Days = Annotated[float, Field(gt=0)]


def _is_regex(pattern: str) -> str:
    # The gate matches with Polars, whose expressions know no look-around: what it cannot read is an error here.
    import polars as pl

    try:
        pl.Series([""]).str.contains(f"(?i){pattern}")
    except pl.exceptions.ComputeError as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {' '.join(str(error).split())}") from error
    return pattern


class Section(BaseModel):
    """A part of the policy: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


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


class ModelPrice(Section):
    """What a model costs, in USD per million tokens."""

    input: Annotated[float, Field(ge=0, description="tokens read")]
    output: Annotated[float, Field(ge=0, description="tokens written")]
    cache_write: Annotated[float, Field(ge=0, description="tokens read and kept by the service")]
    cache_read: Annotated[float, Field(ge=0, description="tokens that the service had kept")]
    batch_share: Annotated[Share, Field(description="a batch costs this share of all four")]


class JudgePolicy(Section):
    """Who judges pairs (K7, K8)."""

    name: Annotated[
        Literal["auto", "rule", "anthropic", "replay"],
        Field(
            description="`auto`: anthropic if the key is set, else the offline rule judge; `replay`: recorded verdicts"
        ),
    ]
    replay_file: Annotated[
        str | None, Field(min_length=1, description="the verdicts that `replay` repeats, as `kb verdicts` writes them")
    ]
    model: Annotated[str, Field(min_length=1, description="model of the network judge")]
    api_key_env: Annotated[str, Field(min_length=1, description="environment variable that holds the key")]
    base_url: Annotated[str | None, Field(description="another address of the Messages API")]
    timeout_seconds: Annotated[float, Field(gt=0, le=3600, description="patience with one call")]
    max_retries: Annotated[int, Field(ge=0, le=10, description="repeats of a call that failed in passing")]
    max_calls: Annotated[Count, Field(description="K7: so many pairs of the merge band are asked about in a run")]
    max_borderline_calls: Annotated[
        Count, Field(description="K8: so many borderline pairs are asked about in a run, then those found by words")
    ]
    max_tokens: Annotated[
        int | None, Field(ge=1, description="no pair is asked about after so many tokens of a run; null: no limit")
    ]
    max_cost_usd: Annotated[
        float | None,
        Field(gt=0, description="no pair is asked about that could bring a run above so much; null: no limit"),
    ]
    prices: Annotated[
        dict[str, ModelPrice],
        Field(
            description="USD per million tokens of each model, yours to keep up to date: those shipped are list prices as "
            "published in autumn 2026; a model that is not named has an unknown cost"
        ),
    ]
    delivery: Annotated[
        Literal["auto", "batch", "direct"],
        Field(
            description="pairs go out one by one, or as a batch at a lower price; `auto`: as a batch from the next value on"
        ),
    ]
    min_batch_pairs: Annotated[int, Field(ge=1, description="fewer pairs than this are asked about directly")]
    max_batch_wait_minutes: Annotated[
        float,
        Field(ge=0, le=1440, description="a run waits so long for its batches; the next run takes up what came later"),
    ]
    batch_poll_seconds: Annotated[
        float, Field(gt=0, le=600, description="from the first look at a batch to the second; then ever longer")
    ]
    max_concurrency: Annotated[int, Field(ge=1, le=64, description="direct calls at the same time")]
    min_confidence: Annotated[Share, Field(description="a less confident MERGE goes to review")]
    max_text_chars: Annotated[int, Field(ge=100, description="a longer text is never sent, the pair goes to review")]
    min_gold_precision: Annotated[
        Share, Field(description="X6: halt when fewer of the rules' merges on the shipped gold set are right")
    ]

    @model_validator(mode="after")
    def _is_complete(self) -> JudgePolicy:
        if self.name == "replay" and self.replay_file is None:
            raise ValueError("judge.name: replay needs judge.replay_file, a file that kb verdicts has written")
        if self.max_cost_usd is not None and self.price() is None:
            raise ValueError(
                f"max_cost_usd limits a cost that is not known: judge.prices names no price of the model {self.model}"
            )
        return self

    def price(self) -> ModelPrice | None:
        """The price of the model, by its name or by its name without the date at its end; None when none is named."""
        return self.prices.get(self.model) or self.prices.get(re.sub(r"-\d{8}$", "", self.model))


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


class CuratorPolicy(Section):
    """The pass over recent entries (P2-P6); nothing else reads these values."""

    max_age_days: Annotated[
        Days,
        Field(description="P6: recent is a text that is at most so many days old, or that came since the last pass"),
    ]
    max_entries: Annotated[int, Field(ge=1, description="a pass looks at so many recent entries, the newest")]
    flag_gates: Annotated[
        bool, Field(description="a recent active entry that a gate would not let in today is asked about")
    ]
    ask_model: Annotated[
        bool, Field(description="P2: a network judge, where one is in force, also reads recent entries many at a time")
    ]
    max_calls: Annotated[Count, Field(description="so many such readings in a pass; the rest waits for the next")]
    max_entries_per_call: Annotated[int, Field(ge=2, le=200, description="entries in one reading")]
    max_call_chars: Annotated[int, Field(ge=1000, description="and so many code points of their texts together")]
    min_confidence: Annotated[
        Share, Field(description="P3, P6: a duplicate that the model names with less confidence is passed over")
    ]


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
