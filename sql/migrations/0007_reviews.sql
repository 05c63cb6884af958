-- What people answered. An answer is one action with an id of its own; its undo voids that id, and every projection
-- returns to what it was. What a person said of a text holds for that text: a new one from the source ends it.

CREATE TABLE review_actions (
    action_id            text COLLATE "C" PRIMARY KEY,
    corpus               text COLLATE "C" NOT NULL REFERENCES corpora,
    action               text NOT NULL,
    -- The question that was answered; null when a person acted on an entry that nobody had asked about.
    recommendation_id    text COLLATE "C",
    recommendation_type  text,
    resolution           text,
    -- What the person was shown.
    entry_ids            json NOT NULL,
    content_hashes       json NOT NULL,
    -- These, and the other sides of conflicts that ended with them.
    touched_ids          json NOT NULL,
    -- Whether a state, a text, an approval or a conflict changed, so that later work may stand on it.
    changes_entries      boolean NOT NULL,
    details              json,
    actor_id             text NOT NULL,
    change_id            bigint NOT NULL REFERENCES changes,
    effective_at         timestamptz NOT NULL
);
CREATE INDEX review_actions_by_corpus ON review_actions (corpus, recommendation_id);

-- Bodies that a person wrote. An edit holds while the imported text below it is the one that was edited.
CREATE TABLE entry_edits (
    action_id      text COLLATE "C" NOT NULL,
    corpus         text COLLATE "C" NOT NULL,
    entry_id       text COLLATE "C" NOT NULL,
    source_hash    text NOT NULL,
    body           text NOT NULL,
    content_hash   text NOT NULL,
    change_id      bigint NOT NULL REFERENCES changes,
    effective_at   timestamptz NOT NULL,
    PRIMARY KEY (corpus, entry_id, action_id)
);

-- That a person approved a text, or found that it still holds.
CREATE TABLE entry_approvals (
    action_id      text COLLATE "C" NOT NULL,
    corpus         text COLLATE "C" NOT NULL,
    entry_id       text COLLATE "C" NOT NULL,
    content_hash   text NOT NULL,
    approves       boolean NOT NULL,
    validated_at   timestamptz,
    change_id      bigint NOT NULL REFERENCES changes,
    effective_at   timestamptz NOT NULL,
    PRIMARY KEY (corpus, entry_id, action_id)
);

-- That two texts are two. covers: 'all' (neither the same nor a conflict) or 'merge' (not to be merged).
CREATE TABLE pair_decisions (
    action_id       text COLLATE "C" NOT NULL,
    corpus          text COLLATE "C" NOT NULL,
    entry_id_l      text COLLATE "C" NOT NULL,
    entry_id_r      text COLLATE "C" NOT NULL,
    content_hash_l  text NOT NULL,
    content_hash_r  text NOT NULL,
    covers          text NOT NULL CHECK (covers IN ('all', 'merge')),
    change_id       bigint NOT NULL REFERENCES changes,
    PRIMARY KEY (corpus, entry_id_l, entry_id_r, action_id)
);

ALTER TABLE person_decisions ADD COLUMN action_id text COLLATE "C";
ALTER TABLE conflicts ADD COLUMN resolution text;
ALTER TABLE entries ADD COLUMN edit_action_id text COLLATE "C";

DROP FUNCTION entry_snapshot(text, timestamptz, bigint, text[]);

CREATE FUNCTION entry_snapshot(p_corpus text, p_as_of timestamptz, p_change bigint, p_entry_ids text[] DEFAULT NULL)
RETURNS TABLE (
    entry_id text, version_number integer, kind text, title text, body text, rationale text, alternatives json,
    steps json, tags json, tenant text, repository text, module text, confidence double precision, pinned boolean,
    keep_distinct boolean, review_state text, sensitivity text, created_at timestamptz, updated_at timestamptz,
    expires_at timestamptz, last_validated_at timestamptz, completed_at timestamptz, supersedes json,
    generated_from json, visible_to json, origin text, source_type text, proposed_by text, author text,
    invalidation_policy json, extra json, content_hash text, effective_at timestamptz, first_effective_at timestamptz,
    state text, state_reason text, state_changed_at timestamptz, merged_into text, superseded_by text,
    conflict_state text, attempts bigint, successes bigint, retrievals bigint, last_matched_at timestamptz,
    last_retrieved_at timestamptz, evidence_count integer, quality_score double precision,
    distinctiveness double precision, source_hash text, edit_action_id text
)
LANGUAGE sql STABLE AS $$
    WITH voided AS MATERIALIZED (
        SELECT DISTINCT x.action_id FROM event_voids x WHERE x.corpus = p_corpus AND x.change_id <= p_change
    ),
    version AS (
        SELECT DISTINCT ON (v.entry_id) v.*
        FROM entry_versions v
        WHERE v.corpus = p_corpus AND v.effective_at < p_as_of AND v.change_id <= p_change
          AND (p_entry_ids IS NULL OR v.entry_id = ANY (p_entry_ids))
        ORDER BY v.entry_id, v.version_number DESC
    ),
    -- The last edit of each imported text; whether that text is still the imported one is asked below.
    edit AS (
        SELECT DISTINCT ON (d.entry_id, d.source_hash) d.*
        FROM entry_edits d
        WHERE d.corpus = p_corpus AND d.effective_at < p_as_of AND d.change_id <= p_change
          AND (p_entry_ids IS NULL OR d.entry_id = ANY (p_entry_ids))
          AND NOT EXISTS (SELECT 1 FROM voided x WHERE x.action_id = d.action_id)
        ORDER BY d.entry_id, d.source_hash, d.effective_at DESC, d.change_id DESC
    ),
    approval AS (
        SELECT a.entry_id, a.content_hash, bool_or(a.approves) AS approved, max(a.validated_at) AS validated_at
        FROM entry_approvals a
        WHERE a.corpus = p_corpus AND a.effective_at < p_as_of AND a.change_id <= p_change
          AND (p_entry_ids IS NULL OR a.entry_id = ANY (p_entry_ids))
          AND NOT EXISTS (SELECT 1 FROM voided x WHERE x.action_id = a.action_id)
        GROUP BY a.entry_id, a.content_hash
    ),
    first_seen AS (
        SELECT v.entry_id, min(v.effective_at) AS at
        FROM entry_versions v
        WHERE v.corpus = p_corpus AND v.change_id <= p_change
          AND (p_entry_ids IS NULL OR v.entry_id = ANY (p_entry_ids))
        GROUP BY v.entry_id
    ),
    state AS (
        SELECT DISTINCT ON (h.entry_id) h.*
        FROM entry_state_history h
        WHERE h.corpus = p_corpus AND h.effective_at < p_as_of AND h.change_id <= p_change
          AND (p_entry_ids IS NULL OR h.entry_id = ANY (p_entry_ids))
          AND (h.action_id IS NULL OR NOT EXISTS (SELECT 1 FROM voided x WHERE x.action_id = h.action_id))
        ORDER BY h.entry_id, h.effective_at DESC, h.change_id DESC, h.event_id
    ),
    usage AS (
        SELECT u.entry_id, sum(u.attempts)::bigint AS attempts, sum(u.successes)::bigint AS successes,
               sum(u.retrievals)::bigint AS retrievals, max(u.matched_at) AS last_matched_at,
               max(u.retrieved_at) AS last_retrieved_at
        FROM usage_events u
        WHERE u.corpus = p_corpus AND u.effective_at < p_as_of AND u.change_id <= p_change
          AND (p_entry_ids IS NULL OR u.entry_id = ANY (p_entry_ids))
          AND (u.action_id IS NULL OR NOT EXISTS (SELECT 1 FROM voided x WHERE x.action_id = u.action_id))
        GROUP BY u.entry_id
    ),
    proof AS (
        SELECT p.entry_id, count(*)::integer AS evidence_count
        FROM visible_evidence(p_corpus, p_as_of, p_change, p_entry_ids) p
        GROUP BY p.entry_id
    ),
    quality AS (
        SELECT DISTINCT ON (q.entry_id) q.entry_id, q.quality_score, q.distinctiveness
        FROM quality_assessments q
        WHERE q.corpus = p_corpus AND q.effective_at < p_as_of AND q.change_id <= p_change
          AND (p_entry_ids IS NULL OR q.entry_id = ANY (p_entry_ids))
          AND (q.action_id IS NULL OR NOT EXISTS (SELECT 1 FROM voided x WHERE x.action_id = q.action_id))
        ORDER BY q.entry_id, q.effective_at DESC, q.change_id DESC
    ),
    open_conflict AS (
        SELECT DISTINCT m.entry_id
        FROM (
            SELECT DISTINCT ON (c.conflict_id) c.conflict_id, c.status, c.entry_id_l, c.entry_id_r
            FROM conflicts c
            WHERE c.corpus = p_corpus AND c.effective_at < p_as_of AND c.change_id <= p_change
              AND NOT EXISTS (SELECT 1 FROM voided x WHERE x.action_id = c.action_id)
            ORDER BY c.conflict_id, c.effective_at DESC, c.change_id DESC
        ) last
        CROSS JOIN LATERAL (VALUES (last.entry_id_l), (last.entry_id_r)) AS m (entry_id)
        WHERE last.status = 'open'
    )
    SELECT v.entry_id, v.version_number, v.kind, v.title, coalesce(d.body, v.body), v.rationale, v.alternatives,
           v.steps, v.tags, v.tenant, v.repository, v.module, v.confidence, v.pinned, v.keep_distinct,
           CASE WHEN a.approved THEN 'approved' ELSE v.review_state END, v.sensitivity, v.created_at,
           greatest(v.updated_at, d.effective_at), v.expires_at, greatest(v.last_validated_at, a.validated_at),
           v.completed_at, v.supersedes, v.generated_from, v.visible_to, v.origin, v.source_type, v.proposed_by,
           v.author, v.invalidation_policy, v.extra, coalesce(d.content_hash, v.content_hash), v.effective_at, f.at,
           s.to_state, s.reason, s.effective_at, s.merged_into, s.superseded_by,
           CASE WHEN o.entry_id IS NOT NULL THEN 'open' ELSE coalesce(v.imported_conflict_state, 'none') END,
           coalesce(u.attempts, 0), coalesce(u.successes, 0), coalesce(u.retrievals, 0), u.last_matched_at,
           u.last_retrieved_at, coalesce(p.evidence_count, 0), q.quality_score, q.distinctiveness, v.content_hash,
           d.action_id
    FROM version v
    JOIN state s ON s.entry_id = v.entry_id
    JOIN first_seen f ON f.entry_id = v.entry_id
    LEFT JOIN edit d ON d.entry_id = v.entry_id AND d.source_hash = v.content_hash
    LEFT JOIN approval a ON a.entry_id = v.entry_id AND a.content_hash = coalesce(d.content_hash, v.content_hash)
    LEFT JOIN usage u ON u.entry_id = v.entry_id
    LEFT JOIN proof p ON p.entry_id = v.entry_id
    LEFT JOIN quality q ON q.entry_id = v.entry_id
    LEFT JOIN open_conflict o ON o.entry_id = v.entry_id
$$;

CREATE OR REPLACE FUNCTION refresh_entries(p_corpus text, p_entry_ids text[] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    touched bigint;
    last_change bigint;
BEGIN
    SELECT coalesce(max(change_id), 0) INTO last_change FROM changes WHERE corpus = p_corpus;
    DELETE FROM entries e
    WHERE e.corpus = p_corpus AND (p_entry_ids IS NULL OR e.entry_id = ANY (p_entry_ids));
    INSERT INTO entries (
        corpus, entry_id, version_number, kind, title, tenant, repository, module, content_hash, state, state_reason,
        state_changed_at, merged_into, superseded_by, conflict_state, attempts, successes, retrievals,
        last_matched_at, last_retrieved_at, evidence_count, quality_score, distinctiveness, edit_action_id
    )
    SELECT p_corpus, s.entry_id, s.version_number, s.kind, s.title, s.tenant, s.repository, s.module, s.content_hash,
           s.state, s.state_reason, s.state_changed_at, s.merged_into, s.superseded_by, s.conflict_state, s.attempts,
           s.successes, s.retrievals, s.last_matched_at, s.last_retrieved_at, s.evidence_count, s.quality_score,
           s.distinctiveness, s.edit_action_id
    FROM entry_snapshot(p_corpus, 'infinity', last_change, p_entry_ids) s;
    GET DIAGNOSTICS touched = ROW_COUNT;
    RETURN touched;
END;
$$;
