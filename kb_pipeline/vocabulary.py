"""The closed sets of words that kb_pipeline speaks: states, kinds, bands, verdicts, reason codes.

Belongs here: every enumeration that a file, a table column or a report may contain. Does not belong here: which state may
follow which (transitions), thresholds (policy) and column types (schemas).

Reason codes are a contract with dashboards: they are added, never renamed.
"""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What sort of knowledge an entry is (ledger P1)."""

    DECISION = "decision"
    FACT = "fact"
    SKILL = "skill"
    PATTERN = "pattern"
    CONVENTION = "convention"
    RULE = "rule"
    RUNBOOK = "runbook"
    LESSON = "lesson"
    TASK = "task"
    SESSION_NOTE = "session_note"
    EVALUATION_LESSON = "evaluation_lesson"
    ARCHITECTURE_DECISION = "architecture_decision"


class State(StrEnum):
    """Where an entry stands in its life (ledger M1)."""

    CANDIDATE = "candidate"
    APPROVED = "approved"
    ACTIVE = "active"
    NEEDS_REVIEW = "needs_review"
    STALE = "stale"
    INVALIDATED = "invalidated"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    ARCHIVED = "archived"
    BLOCKED = "blocked"


LIVE_STATES: tuple[State, ...] = (
    State.CANDIDATE,
    State.APPROVED,
    State.ACTIVE,
    State.NEEDS_REVIEW,
    State.STALE,
)
"""States whose texts make up the corpus: statistics such as distinctiveness (K5) are taken over these."""


class ReviewState(StrEnum):
    """What a person has said of an entry."""

    UNREVIEWED = "unreviewed"
    APPROVED = "approved"
    REJECTED = "rejected"


class ConflictState(StrEnum):
    """Whether an entry stands in an open conflict."""

    NONE = "none"
    OPEN = "open"
    RESOLVED = "resolved"


class Sensitivity(StrEnum):
    """Who may see an entry; restricted texts never reach a model."""

    PUBLIC = "public"
    INTERNAL = "internal"
    RESTRICTED = "restricted"


class Origin(StrEnum):
    """Who wrote an entry down."""

    HUMAN = "human"
    AGENT = "agent"
    PARSER = "parser"
    GENERATED = "generated"


class UsageType(StrEnum):
    """What a usage event records. Retrieved, included and cited are matches (definitions, "Use")."""

    RETRIEVED = "retrieved"
    INCLUDED = "included"
    CITED = "cited"
    IGNORED = "ignored"
    CONTRADICTED = "contradicted"
    CANDIDATE_CREATED = "candidate_created"
    OUTCOME = "outcome"
    BASELINE = "baseline"
    MATCHED = "matched"
    TRANSFERRED = "transferred"
    STRENGTHENED = "strengthened"


MATCH_TYPES: frozenset[UsageType] = frozenset({UsageType.RETRIEVED, UsageType.INCLUDED, UsageType.CITED})
"""Usage events that count as a match of the entry."""


class Band(StrEnum):
    """How a pair of entries was found (definitions, "Pairs")."""

    EXACT = "exact"
    MERGE = "merge"
    BORDERLINE = "borderline"
    LEXICAL = "lexical"


class Verdict(StrEnum):
    """What a judge says of a pair; UNSURE goes to the review queue."""

    MERGE = "MERGE"
    KEEP_BOTH = "KEEP_BOTH"
    CONFLICT = "CONFLICT"
    SUPERSEDES = "SUPERSEDES"
    UNSURE = "UNSURE"


class ConflictType(StrEnum):
    """Kinds of conflict between entries (ledger M8)."""

    CONTRADICTION = "contradiction"
    VALUE_MISMATCH = "value_mismatch"
    TEMPORAL = "temporal"
    SCOPE_OVERLAP = "scope_overlap"
    SOURCE_DISAGREEMENT = "source_disagreement"


class Severity(StrEnum):
    """How urgently a person should look."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class RecommendationType(StrEnum):
    """What the review queue asks of a person (ledger P4)."""

    MERGE = "MERGE"
    FLAG = "FLAG"
    SUPERSEDE = "SUPERSEDE"
    REFRESH = "REFRESH"
    ARCHIVE = "ARCHIVE"
    CONFLICT = "CONFLICT"
    ADMIT = "ADMIT"


class ReviewAction(StrEnum):
    """What a person can answer, or do with an entry unasked (ledger P5, M5)."""

    ACCEPT = "accept"
    EDIT = "edit"
    KEEP = "keep"
    ARCHIVE = "archive"
    DISMISS = "dismiss"
    APPROVE = "approve"


class Resolution(StrEnum):
    """How a person decides a conflict of A and B (ledger M8)."""

    KEEP_A = "keep_a"
    KEEP_B = "keep_b"
    KEEP_BOTH = "keep_both"
    NEITHER = "neither"
    MANUAL = "manual"


class ApprovalCheck(StrEnum):
    """What a person has looked at before an entry is approved (ledger M5)."""

    STATEMENT_CORRECT = "statement_correct"
    EVIDENCE_SUFFICIENT = "evidence_sufficient"
    SCOPE_CORRECT = "scope_correct"
    NO_SECRET = "no_secret"  # noqa: S105 - a check, not a password
    USEFUL = "useful"
    NOT_DUPLICATE = "not_duplicate"
    NOT_CONFLICTING = "not_conflicting"
    INVALIDATION_POLICY_REASONABLE = "invalidation_policy_reasonable"


class ActionType(StrEnum):
    """What one line of a curation plan does."""

    ADMIT = "admit"
    REFUSE = "refuse"
    STRENGTHEN = "strengthen"
    RETIRE = "retire"
    MERGE = "merge"
    OPEN_CONFLICT = "open_conflict"
    CLOSE_CONFLICT = "close_conflict"
    RECOMMEND = "recommend"


class Mode(StrEnum):
    """Whether a run applies what policy allows or only recommends (house, "A run")."""

    RECOMMEND = "recommend"
    APPLY = "apply"


class RunStatus(StrEnum):
    """How a run stands or ended."""

    RUNNING = "running"
    OK = "ok"
    DEGRADED = "degraded"
    HALTED = "halted"
    FAILED = "failed"
    ROLLED_BACK = "rolled_back"


class Profile(StrEnum):
    """Named sets of policy values."""

    WEEKLY = "weekly"
    CURATOR = "curator"


class JobType(StrEnum):
    """What sort of run it is: a week of the weekly curation, or a pass over recent entries, which only asks (P2, P4)."""

    CURATE = "curate"
    CURATOR_PASS = "curator_pass"  # noqa: S105 - a job, not a password


class ReasonCode(StrEnum):
    """Why something was decided: ``stage.what_is_wrong`` (or, for a judge, what it saw)."""

    IMPORT_STATE = "import.state"

    LOAD_ADDRESSES_JUDGE = "load.addresses_judge"
    LOAD_SECRET = "load.secret"  # noqa: S105 - a reason code, not a password

    DISTINCTIVENESS_NO_TOKENS = "distinctiveness.no_tokens"

    GATES_PASSED = "gates.passed"
    GATES_NAME_TOO_SHORT = "gates.name_too_short"
    GATES_GENERIC_NAME = "gates.generic_name"
    GATES_NOT_DISTINCTIVE = "gates.not_distinctive"
    GATES_TOO_SIMILAR = "gates.too_similar"
    GATES_TOO_SIMILAR_DIFFERS = "gates.too_similar_differs"

    RETIRE_LOW_CI_UPPER = "retire.low_ci_upper"
    RETIRE_STALE = "retire.stale"

    FLAGS_NO_STEPS = "flags.no_steps"
    FLAGS_NO_RATIONALE = "flags.no_rationale"
    FLAGS_VAGUE_FACT = "flags.vague_fact"
    FLAGS_EVENT_LOG = "flags.event_log"
    FLAGS_GONE_REFERENCE = "flags.gone_reference"
    FLAGS_SEVERAL_TOPICS = "flags.several_topics"
    FLAGS_BY_JUDGE = "flags.by_judge"

    ELIGIBILITY_NOT_ACTIVE = "eligibility.not_active"
    ELIGIBILITY_IN_CONFLICT = "eligibility.in_conflict"
    ELIGIBILITY_EXPIRED = "eligibility.expired"
    ELIGIBILITY_REJECTED = "eligibility.rejected"
    ELIGIBILITY_NOT_PERMITTED = "eligibility.not_permitted"
    ELIGIBILITY_HOLDS_SECRET = "eligibility.holds_secret"  # noqa: S105 - a reason code, not a password
    ELIGIBILITY_OUT_OF_SCOPE = "eligibility.out_of_scope"
    ELIGIBILITY_LOW_CONFIDENCE = "eligibility.low_confidence"

    JUDGE_EXACT = "judge.exact"
    JUDGE_CANONICAL = "judge.canonical"
    JUDGE_CONTRADICTION = "judge.contradiction"
    JUDGE_VALUE_MISMATCH = "judge.value_mismatch"
    JUDGE_SUBSET = "judge.subset"
    JUDGE_SPECIFICS_DIFFER = "judge.specifics_differ"
    JUDGE_SPECIFICS_OVERLAP = "judge.specifics_overlap"
    JUDGE_OTHER_THING = "judge.other_thing"
    JUDGE_PARTS_SWAPPED = "judge.parts_swapped"
    JUDGE_RESIDUE = "judge.residue"
    JUDGE_FAR_APART = "judge.far_apart"
    JUDGE_MACHINE_RECORDS = "judge.machine_records"
    JUDGE_QUEUE_FULL = "judge.queue_full"
    JUDGE_SAME_RULE = "judge.same_rule"
    JUDGE_DISTINCT = "judge.distinct"
    JUDGE_SUPERSEDES = "judge.supersedes"
    JUDGE_LOW_CONFIDENCE = "judge.low_confidence"
    JUDGE_ORDER_DISAGREES = "judge.order_disagrees"
    JUDGE_NOT_ALLOWED = "judge.not_allowed"
    JUDGE_SECRET = "judge.secret"  # noqa: S105 - a reason code, not a password
    JUDGE_BUDGET_SPENT = "judge.budget_spent"
    JUDGE_TOO_LONG = "judge.too_long"
    JUDGE_ADDRESSED = "judge.addressed"
    JUDGE_INVALID_REPLY = "judge.invalid_reply"
    JUDGE_REFUSED = "judge.refused"
    JUDGE_TRUNCATED = "judge.truncated"
    JUDGE_TIMEOUT = "judge.timeout"
    JUDGE_UNAVAILABLE = "judge.unavailable"
    JUDGE_REJECTED_REQUEST = "judge.rejected_request"
    JUDGE_CANARY_FAILED = "judge.canary_failed"
    JUDGE_BATCH_PENDING = "judge.batch_pending"
    JUDGE_BATCH_UNANSWERED = "judge.batch_unanswered"
    JUDGE_NOT_RECORDED = "judge.not_recorded"
    JUDGE_KEPT_BY_PERSON = "judge.kept_by_person"
    JUDGE_DISMISSED_BY_PERSON = "judge.dismissed_by_person"

    WINDOW_DUPLICATE = "window.duplicate"

    MERGE_SPECIFICS_DIFFER = "merge.specifics_differ"
    MERGE_CHAIN = "merge.chain"
    MERGE_PRODUCT = "merge.product"
    MERGE_SENSITIVITY_DIFFERS = "merge.sensitivity_differs"
    MERGE_KEPT_BY_PERSON = "merge.kept_by_person"
    MERGE_MODE_RECOMMEND = "merge.mode_recommend"
    MERGE_SPECIFICS_LOST = "merge.specifics_lost"
    MERGE_SPECIFICS_INVENTED = "merge.specifics_invented"
    MERGE_BODY_EMPTY = "merge.body_empty"
    MERGE_BODY_TOO_SHORT = "merge.body_too_short"
    MERGE_BODY_TOO_LONG = "merge.body_too_long"
    MERGE_BODY_STRANGE = "merge.body_strange"
    MERGE_BODY_SECRET = "merge.body_secret"  # noqa: S105 - a reason code, not a password
    MERGE_BODY_CONTROL_CHARACTERS = "merge.body_control_characters"
    MERGE_BODY_ADDRESSES_JUDGE = "merge.body_addresses_judge"

    CONFLICTS_CONTRADICTION = "conflicts.contradiction"
    CONFLICTS_VALUE_MISMATCH = "conflicts.value_mismatch"
    CONFLICTS_TEXT_CHANGED = "conflicts.text_changed"
    CONFLICTS_SIDE_GONE = "conflicts.side_gone"

    SUPERSEDE_DECLARED = "supersede.declared"
    SUPERSEDE_SAME_TITLE = "supersede.same_title"

    REFRESH_EXPIRED = "refresh.expired"
    REFRESH_UNVALIDATED = "refresh.unvalidated"

    REVIEW_ADMITTED = "review.admitted"
    REVIEW_APPROVED = "review.approved"
    REVIEW_ARCHIVED = "review.archived"
    REVIEW_CONFLICT_DECIDED = "review.conflict_decided"
    REVIEW_FLAGGED = "review.flagged"
    REVIEW_MERGED = "review.merged"
    REVIEW_OUT_OF_DATE = "review.out_of_date"
    REVIEW_SUPERSEDED = "review.superseded"


JUDGE_FAILURES: frozenset[ReasonCode] = frozenset(
    {
        ReasonCode.JUDGE_INVALID_REPLY,
        ReasonCode.JUDGE_REFUSED,
        ReasonCode.JUDGE_TRUNCATED,
        ReasonCode.JUDGE_TIMEOUT,
        ReasonCode.JUDGE_UNAVAILABLE,
        ReasonCode.JUDGE_REJECTED_REQUEST,
        ReasonCode.JUDGE_CANARY_FAILED,
        ReasonCode.JUDGE_BATCH_UNANSWERED,
    }
)
"""Reasons that say a configured judge failed: the pair is kept and the run is degraded (behaviour 1)."""


class PairLabel(StrEnum):
    """What a reader says of two texts. SUBSET is a KEEP_BOTH whose one text says all of the other and more."""

    MERGE = "MERGE"
    KEEP_BOTH = "KEEP_BOTH"
    CONFLICT = "CONFLICT"
    SUBSET = "SUBSET"
    SUPERSEDES = "SUPERSEDES"


class PairAction(StrEnum):
    """What a run would do with two entries."""

    MERGE = "merge"
    QUEUE = "queue"
    KEEP = "keep"
    CONFLICT = "conflict"
