-- Report tables: the rows of the files of a week, for analysts and for the trend. Rewritten when the week is run again.

CREATE TABLE report_health (
    corpus            text COLLATE "C" NOT NULL REFERENCES corpora,
    week              date NOT NULL,
    as_of             timestamptz NOT NULL,
    run_id            text COLLATE "C" NOT NULL,
    repository        text COLLATE "C",
    entry_count       bigint NOT NULL,
    active            bigint NOT NULL,
    candidates        bigint NOT NULL,
    approved          bigint NOT NULL,
    needs_review      bigint NOT NULL,
    stale             bigint NOT NULL,
    invalidated       bigint NOT NULL,
    superseded        bigint NOT NULL,
    expired           bigint NOT NULL,
    archived          bigint NOT NULL,
    blocked           bigint NOT NULL,
    conflicted        bigint NOT NULL,
    queue_length      bigint NOT NULL,
    queue_oldest_days bigint,
    evidence_coverage double precision,
    retired           bigint NOT NULL,
    merged            bigint NOT NULL,
    mean_distinctiveness double precision,
    not_looked_at     bigint NOT NULL,
    UNIQUE NULLS NOT DISTINCT (corpus, week, repository)
);

CREATE TABLE report_pairs (
    corpus            text COLLATE "C" NOT NULL REFERENCES corpora,
    week              date NOT NULL,
    run_id            text COLLATE "C" NOT NULL,
    entry_id_l        text COLLATE "C" NOT NULL,
    entry_id_r        text COLLATE "C" NOT NULL,
    similarity        double precision,
    band              text NOT NULL,
    verdict           text NOT NULL,
    reason            text NOT NULL,
    judge             text NOT NULL,
    specifics_only_l  json NOT NULL,
    specifics_only_r  json NOT NULL,
    PRIMARY KEY (corpus, week, entry_id_l, entry_id_r)
);

CREATE TABLE report_pruning (
    corpus           text COLLATE "C" NOT NULL REFERENCES corpora,
    week             date NOT NULL,
    run_id           text COLLATE "C" NOT NULL,
    entry_id         text COLLATE "C" NOT NULL,
    action           text NOT NULL,
    rule             text NOT NULL,
    reason           text NOT NULL,
    last_matched_at  timestamptz,
    confidence       double precision,
    protected        boolean NOT NULL,
    PRIMARY KEY (corpus, week, entry_id)
);
