-- Caches are written as they are made and are not state: dropping a row costs time, never knowledge.

CREATE TABLE embeddings (
    content_hash       text NOT NULL,
    model_fingerprint  text NOT NULL,
    window_number      integer NOT NULL,
    -- Little-endian float32, unit length. Null: the model found nothing in the text that it could encode.
    vector             bytea,
    PRIMARY KEY (model_fingerprint, content_hash, window_number)
);

CREATE TABLE text_keys (
    content_hash   text NOT NULL,
    text_version   text NOT NULL,
    exact_key      text,
    -- Hash of the ordered canonical sequence together with the specifics ledger: equal keys may merge without a judge.
    merge_key      text,
    secret_kinds   json,
    addresses_judge boolean NOT NULL,
    PRIMARY KEY (text_version, content_hash)
);

CREATE TABLE judge_verdicts (
    content_hash_l      text NOT NULL,
    content_hash_r      text NOT NULL,
    judge_fingerprint   text NOT NULL,
    kind_l              text NOT NULL,
    kind_r              text NOT NULL,
    verdict             text NOT NULL,
    reason              text NOT NULL,
    judge               text NOT NULL,
    judge_confidence    double precision,
    explanation         text,
    model               text,
    specifics_only_l    json NOT NULL,
    specifics_only_r    json NOT NULL,
    decided_at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (judge_fingerprint, content_hash_l, content_hash_r, kind_l, kind_r)
);
