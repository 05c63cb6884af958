-- Identity, texts, states, use and evidence of entries. Histories are append-only: a row is never updated or deleted by
-- curation. What `entries` shows is a projection of the histories and can be rebuilt from them at any time.

CREATE TABLE corpora (
    corpus      text COLLATE "C" PRIMARY KEY,
    created_at  timestamptz NOT NULL DEFAULT now()
);

-- One row for every import, applied run, rollback or review: the order in which a corpus changed. Changes of one corpus
-- are serialised by an advisory lock, so change_id orders them without looking at a clock.
CREATE TABLE changes (
    change_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    corpus       text COLLATE "C" NOT NULL REFERENCES corpora,
    change_type  text NOT NULL CHECK (change_type IN ('import', 'curation', 'rollback', 'review')),
    run_id       text COLLATE "C",
    actor_type   text NOT NULL,
    actor_id     text NOT NULL,
    recorded_at  timestamptz NOT NULL DEFAULT now(),
    details      json
);
CREATE INDEX changes_by_corpus ON changes (corpus, change_id);

CREATE TABLE entry_versions (
    corpus                  text COLLATE "C" NOT NULL,
    entry_id                text COLLATE "C" NOT NULL,
    version_number          integer NOT NULL,
    change_id               bigint NOT NULL REFERENCES changes,
    effective_at            timestamptz NOT NULL,
    kind                    text NOT NULL,
    title                   text,
    body                    text,
    rationale               text,
    alternatives            json,
    steps                   json,
    tags                    json,
    tenant                  text COLLATE "C",
    repository              text COLLATE "C",
    module                  text COLLATE "C",
    confidence              double precision CHECK (confidence >= 0 AND confidence <= 1),
    pinned                  boolean NOT NULL,
    keep_distinct           boolean NOT NULL,
    review_state            text NOT NULL,
    sensitivity             text NOT NULL,
    created_at              timestamptz,
    updated_at              timestamptz,
    expires_at              timestamptz,
    last_validated_at       timestamptz,
    completed_at            timestamptz,
    supersedes              json,
    generated_from          json,
    visible_to              json,
    origin                  text,
    source_type             text,
    proposed_by             text,
    author                  text,
    invalidation_policy     json,
    extra                   json,
    content_hash            text NOT NULL,
    version_hash            text NOT NULL,
    evidence_hash           text NOT NULL,
    -- What the import row said beside the text: a repeated import is compared with these, not with what curation made
    -- of the entry since.
    imported_state          text,
    imported_attempts       bigint,
    imported_successes      bigint,
    imported_retrievals     bigint,
    imported_conflict_state text,
    -- Keys of vectors and verdicts that came with an exported row: they return in the next full export.
    imported_vector_key     text,
    imported_verdict_keys   json,
    PRIMARY KEY (corpus, entry_id, version_number)
);

CREATE TABLE entry_state_history (
    event_id            text COLLATE "C" PRIMARY KEY,
    corpus              text COLLATE "C" NOT NULL,
    entry_id            text COLLATE "C" NOT NULL,
    from_state          text,
    to_state            text NOT NULL,
    reason              text,
    rule                text,
    merged_into         text COLLATE "C",
    superseded_by       text COLLATE "C",
    actor_type          text NOT NULL,
    actor_id            text NOT NULL,
    run_id              text COLLATE "C",
    policy_fingerprint  text,
    action_id           text COLLATE "C",
    change_id           bigint NOT NULL REFERENCES changes,
    effective_at        timestamptz NOT NULL
);
CREATE INDEX entry_state_history_by_entry ON entry_state_history (corpus, entry_id);

CREATE TABLE usage_events (
    corpus        text COLLATE "C" NOT NULL,
    entry_id      text COLLATE "C" NOT NULL,
    event_id      text COLLATE "C" NOT NULL,
    usage_type    text NOT NULL,
    effective_at  timestamptz NOT NULL,
    change_id     bigint NOT NULL REFERENCES changes,
    action_id     text COLLATE "C",
    workflow_run  text,
    context_pack  text,
    used_in       text,
    outcome       json,
    -- What this event adds to the entry's totals. A baseline carries the totals of a corpus that has no single events;
    -- a transfer carries those of a merged entry.
    attempts      bigint NOT NULL DEFAULT 0,
    successes     bigint NOT NULL DEFAULT 0,
    retrievals    bigint NOT NULL DEFAULT 0,
    matched_at    timestamptz,
    retrieved_at  timestamptz,
    PRIMARY KEY (corpus, entry_id, event_id)
);

CREATE TABLE evidence (
    corpus          text COLLATE "C" NOT NULL,
    entry_id        text COLLATE "C" NOT NULL,
    evidence_key    text COLLATE "C" NOT NULL,
    -- Evidence belongs to a version of the text, or was brought by an action (a merge, a strengthening).
    version_number  integer,
    action_id       text COLLATE "C",
    position        integer NOT NULL,
    effective_at    timestamptz NOT NULL,
    change_id       bigint NOT NULL REFERENCES changes,
    evidence_type   text,
    path            text,
    commit_sha      text,
    line_start      integer,
    line_end        integer,
    symbol          text,
    edge            text,
    ref             text,
    extra           json,
    CHECK ((version_number IS NULL) <> (action_id IS NULL))
);
CREATE INDEX evidence_by_entry ON evidence (corpus, entry_id);

CREATE TABLE quality_assessments (
    assessment_id     text COLLATE "C" PRIMARY KEY,
    corpus            text COLLATE "C" NOT NULL,
    entry_id          text COLLATE "C" NOT NULL,
    quality_score     double precision,
    distinctiveness   double precision,
    factors           json,
    assessor          text NOT NULL,
    run_id            text COLLATE "C",
    action_id         text COLLATE "C",
    change_id         bigint NOT NULL REFERENCES changes,
    effective_at      timestamptz NOT NULL
);
CREATE INDEX quality_assessments_by_entry ON quality_assessments (corpus, entry_id);

-- A rollback appends here: events whose action is named are ignored by every projection from that change on.
CREATE TABLE event_voids (
    corpus     text COLLATE "C" NOT NULL,
    action_id  text COLLATE "C" NOT NULL,
    entry_id   text COLLATE "C",
    change_id  bigint NOT NULL REFERENCES changes
);
CREATE INDEX event_voids_by_action ON event_voids (corpus, action_id);

-- The current state of every entry: what entry_snapshot(corpus, 'infinity', last change) gives.
CREATE TABLE entries (
    corpus            text COLLATE "C" NOT NULL REFERENCES corpora,
    entry_id          text COLLATE "C" NOT NULL,
    version_number    integer NOT NULL,
    kind              text NOT NULL,
    title             text,
    tenant            text COLLATE "C",
    repository        text COLLATE "C",
    module            text COLLATE "C",
    content_hash      text NOT NULL,
    state             text NOT NULL,
    state_reason      text,
    state_changed_at  timestamptz NOT NULL,
    merged_into       text COLLATE "C",
    superseded_by     text COLLATE "C",
    conflict_state    text NOT NULL,
    attempts          bigint NOT NULL,
    successes         bigint NOT NULL,
    retrievals        bigint NOT NULL,
    last_matched_at   timestamptz,
    last_retrieved_at timestamptz,
    evidence_count    integer NOT NULL,
    quality_score     double precision,
    distinctiveness   double precision,
    PRIMARY KEY (corpus, entry_id)
);
