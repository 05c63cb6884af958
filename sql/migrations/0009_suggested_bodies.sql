-- What a judge says beyond its verdict: which of two texts is out of date, and a text for both.

ALTER TABLE judge_verdicts ADD COLUMN superseded_side text CHECK (superseded_side IN ('l', 'r'));
ALTER TABLE judge_verdicts ADD COLUMN suggested_body text;
-- Why a suggested text was not kept: it held a secret, or could not be stored.
ALTER TABLE judge_verdicts ADD COLUMN body_fault text;

ALTER TABLE report_pairs ADD COLUMN superseded_id text COLLATE "C";
