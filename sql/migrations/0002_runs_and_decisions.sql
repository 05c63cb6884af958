-- What runs looked at, decided and asked.

CREATE TABLE memory_maintenance_jobs (
    run_id              text COLLATE "C" PRIMARY KEY,
    corpus              text COLLATE "C" NOT NULL REFERENCES corpora,
    week                date NOT NULL,
    as_of               timestamptz NOT NULL,
    partial             boolean NOT NULL,
    epoch               integer NOT NULL,
    job_type            text NOT NULL,
    profile             text NOT NULL,
    mode                text NOT NULL,
    status              text NOT NULL,
    policy_fingerprint  text NOT NULL,
    model_fingerprint   text,
    judge_fingerprint   text,
    -- The last change this run could see; a re-run of the partition sees the same.
    snapshot_change_id  bigint NOT NULL,
    applied_change_id   bigint REFERENCES changes,
    rolled_back_by      bigint REFERENCES changes,
    rerun_of            text COLLATE "C",
    actor_id            text NOT NULL,
    selected_count      bigint,
    updated_count       bigint,
    counts              jsonb NOT NULL DEFAULT '{}',
    message             text,
    started_at          timestamptz NOT NULL DEFAULT now(),
    completed_at        timestamptz
);
CREATE INDEX memory_maintenance_jobs_by_week ON memory_maintenance_jobs (corpus, week, started_at);

CREATE TABLE curation_actions (
    action_id           text COLLATE "C" PRIMARY KEY,
    corpus              text COLLATE "C" NOT NULL REFERENCES corpora,
    run_id              text COLLATE "C" NOT NULL,
    week                date NOT NULL,
    epoch               integer NOT NULL,
    action              text NOT NULL,
    entry_id            text COLLATE "C" NOT NULL,
    other_entry_id      text COLLATE "C",
    reason              text NOT NULL,
    rule                text NOT NULL,
    from_state          text,
    to_state            text,
    content_hash        text,
    other_content_hash  text,
    similarity          double precision,
    verdict             text,
    judge               text,
    policy_fingerprint  text NOT NULL,
    model_fingerprint   text,
    details             json,
    change_id           bigint NOT NULL REFERENCES changes,
    effective_at        timestamptz NOT NULL
);
CREATE INDEX curation_actions_by_entry ON curation_actions (corpus, entry_id);
CREATE INDEX curation_actions_by_run ON curation_actions (run_id);

CREATE TABLE recommendations (
    recommendation_id    text COLLATE "C" NOT NULL,
    corpus               text COLLATE "C" NOT NULL REFERENCES corpora,
    recommendation_type  text NOT NULL,
    severity             text NOT NULL,
    entry_ids            json NOT NULL,
    content_hashes       json NOT NULL,
    reason               text NOT NULL,
    explanation          text,
    suggested_body       text,
    value                double precision,
    action_id            text COLLATE "C" NOT NULL,
    run_id               text COLLATE "C",
    change_id            bigint NOT NULL REFERENCES changes,
    effective_at         timestamptz NOT NULL,
    PRIMARY KEY (corpus, recommendation_id, action_id)
);

CREATE TABLE conflicts (
    conflict_id    text COLLATE "C" NOT NULL,
    corpus         text COLLATE "C" NOT NULL REFERENCES corpora,
    conflict_type  text NOT NULL,
    severity       text NOT NULL,
    status         text NOT NULL,
    action         text NOT NULL,
    reason         text NOT NULL,
    tenant         text COLLATE "C",
    repository     text COLLATE "C",
    module         text COLLATE "C",
    entry_id_l     text COLLATE "C" NOT NULL,
    entry_id_r     text COLLATE "C" NOT NULL,
    content_hash_l text NOT NULL,
    content_hash_r text NOT NULL,
    explanation    text,
    action_id      text COLLATE "C" NOT NULL,
    run_id         text COLLATE "C",
    change_id      bigint NOT NULL REFERENCES changes,
    effective_at   timestamptz NOT NULL,
    PRIMARY KEY (corpus, conflict_id, action_id)
);

-- What a person said: it outlives runs, and holds until one of the texts changes.
CREATE TABLE person_decisions (
    decision_id     text COLLATE "C" PRIMARY KEY,
    corpus          text COLLATE "C" NOT NULL REFERENCES corpora,
    decision        text NOT NULL,
    entry_id        text COLLATE "C" NOT NULL,
    content_hash    text NOT NULL,
    rule            text NOT NULL,
    actor_id        text NOT NULL,
    change_id       bigint NOT NULL REFERENCES changes,
    effective_at    timestamptz NOT NULL
);
CREATE INDEX person_decisions_by_entry ON person_decisions (corpus, entry_id);
