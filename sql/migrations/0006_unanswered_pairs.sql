-- Pairs that the judge of a run left without a usable answer, or that were not put to it. No cache: a repeated week tells
-- of them what its first run told, whatever a judge would say today.

CREATE TABLE unanswered_pairs (
    run_id            text COLLATE "C" NOT NULL REFERENCES memory_maintenance_jobs,
    content_hash_l    text NOT NULL,
    content_hash_r    text NOT NULL,
    kind_l            text NOT NULL,
    kind_r            text NOT NULL,
    verdict           text NOT NULL,
    reason            text NOT NULL,
    judge             text NOT NULL,
    judge_confidence  double precision,
    explanation       text,
    specifics_only_l  json NOT NULL,
    specifics_only_r  json NOT NULL,
    PRIMARY KEY (run_id, content_hash_l, content_hash_r, kind_l, kind_r)
);
