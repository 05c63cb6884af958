-- Questions to a model that went out as a batch. The rows are written before anything is sent, and the answers as they
-- arrived before they are read: whatever ends a run, what was paid for is found again.

CREATE TABLE judge_batches (
    batch_key            text COLLATE "C" PRIMARY KEY,
    corpus               text NOT NULL,
    -- Model and version of the prompt: what an answer depends on, beside the two texts.
    question_fingerprint text NOT NULL,
    -- Null until the service has answered: a batch without it may or may not have been made.
    batch_id             text UNIQUE,
    state                text NOT NULL CHECK (state IN ('intended', 'submitted', 'ended', 'refused', 'lost')),
    intended_at          timestamptz NOT NULL DEFAULT now(),
    ended_at             timestamptz
);

CREATE INDEX judge_batches_open ON judge_batches (corpus, question_fingerprint) WHERE state IN ('intended', 'submitted');

CREATE TABLE judge_batch_requests (
    custom_id       text COLLATE "C" PRIMARY KEY,
    batch_key       text COLLATE "C" NOT NULL REFERENCES judge_batches,
    -- Entry A of the question is the left one here: the other order of a pair is a row of its own.
    content_hash_l  text NOT NULL,
    content_hash_r  text NOT NULL,
    kind_l          text NOT NULL,
    kind_r          text NOT NULL,
    is_canary       boolean NOT NULL,
    state           text NOT NULL CHECK (state IN ('waiting', 'answered', 'unanswered', 'unusable')),
    reason          text,
    detail          text,
    model           text,
    reply           text
);

CREATE INDEX judge_batch_requests_batch ON judge_batch_requests (batch_key);
