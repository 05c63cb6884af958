-- What a model has read of recent entries, many at a time, and what it found. Caches: written as the answers arrive, so
-- that no text is put to the same model twice in the same place; dropping a row only costs another question.

CREATE TABLE window_reads (
    corpus              text COLLATE "C" NOT NULL REFERENCES corpora,
    reader_fingerprint  text NOT NULL,
    scope               text NOT NULL,
    kind                text NOT NULL,
    content_hash        text NOT NULL,
    read_at             timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (corpus, reader_fingerprint, scope, kind, content_hash)
);

CREATE TABLE window_duplicates (
    corpus              text COLLATE "C" NOT NULL REFERENCES corpora,
    reader_fingerprint  text NOT NULL,
    scope               text NOT NULL,
    kind                text NOT NULL,
    content_hash_l      text NOT NULL,
    content_hash_r      text NOT NULL,
    confidence          double precision NOT NULL,
    sentence            text NOT NULL,
    suggested_body      text,
    PRIMARY KEY (corpus, reader_fingerprint, scope, kind, content_hash_l, content_hash_r)
);

CREATE TABLE window_issues (
    corpus              text COLLATE "C" NOT NULL REFERENCES corpora,
    reader_fingerprint  text NOT NULL,
    scope               text NOT NULL,
    kind                text NOT NULL,
    content_hash        text NOT NULL,
    severity            text NOT NULL,
    sentence            text NOT NULL,
    PRIMARY KEY (corpus, reader_fingerprint, scope, kind, content_hash)
);
