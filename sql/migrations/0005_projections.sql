-- The projections of the histories. One function serves the current state, the as-of snapshot of a past week and the
-- export: visible is what took effect before p_as_of, was recorded up to change p_change, and was not voided by then.
-- p_entry_ids limits the work to some entries; null means all.

CREATE FUNCTION visible_evidence(p_corpus text, p_as_of timestamptz, p_change bigint, p_entry_ids text[] DEFAULT NULL)
RETURNS TABLE (
    entry_id text, evidence_key text, position_number integer, transferred boolean, evidence_type text, path text,
    commit_sha text, line_start integer, line_end integer, symbol text, edge text, ref text, extra json
)
LANGUAGE sql STABLE AS $$
    WITH version AS (
        SELECT DISTINCT ON (v.entry_id) v.entry_id, v.version_number
        FROM entry_versions v
        WHERE v.corpus = p_corpus AND v.effective_at < p_as_of AND v.change_id <= p_change
          AND (p_entry_ids IS NULL OR v.entry_id = ANY (p_entry_ids))
        ORDER BY v.entry_id, v.version_number DESC
    )
    SELECT DISTINCT ON (e.entry_id, e.evidence_key)
        e.entry_id, e.evidence_key, e.position, e.action_id IS NOT NULL, e.evidence_type, e.path, e.commit_sha,
        e.line_start, e.line_end, e.symbol, e.edge, e.ref, e.extra
    FROM evidence e
    JOIN version v ON v.entry_id = e.entry_id
    WHERE e.corpus = p_corpus AND e.effective_at < p_as_of AND e.change_id <= p_change
      AND (e.version_number = v.version_number
           OR (e.action_id IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM event_voids x WHERE x.corpus = p_corpus AND x.action_id = e.action_id
                               AND x.change_id <= p_change)))
    ORDER BY e.entry_id, e.evidence_key, (e.action_id IS NOT NULL), e.position
$$;

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
    distinctiveness double precision
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
    SELECT v.entry_id, v.version_number, v.kind, v.title, v.body, v.rationale, v.alternatives, v.steps, v.tags,
           v.tenant, v.repository, v.module, v.confidence, v.pinned, v.keep_distinct, v.review_state, v.sensitivity,
           v.created_at, v.updated_at, v.expires_at, v.last_validated_at, v.completed_at, v.supersedes,
           v.generated_from, v.visible_to, v.origin, v.source_type, v.proposed_by, v.author, v.invalidation_policy,
           v.extra, v.content_hash, v.effective_at, f.at, s.to_state, s.reason, s.effective_at, s.merged_into,
           s.superseded_by,
           CASE WHEN o.entry_id IS NOT NULL THEN 'open' ELSE coalesce(v.imported_conflict_state, 'none') END,
           coalesce(u.attempts, 0), coalesce(u.successes, 0), coalesce(u.retrievals, 0), u.last_matched_at,
           u.last_retrieved_at, coalesce(p.evidence_count, 0), q.quality_score, q.distinctiveness
    FROM version v
    JOIN state s ON s.entry_id = v.entry_id
    JOIN first_seen f ON f.entry_id = v.entry_id
    LEFT JOIN usage u ON u.entry_id = v.entry_id
    LEFT JOIN proof p ON p.entry_id = v.entry_id
    LEFT JOIN quality q ON q.entry_id = v.entry_id
    LEFT JOIN open_conflict o ON o.entry_id = v.entry_id
$$;

-- Brings `entries` up to date with the histories, for some entries or for the whole corpus.
CREATE FUNCTION refresh_entries(p_corpus text, p_entry_ids text[] DEFAULT NULL) RETURNS bigint
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
        last_matched_at, last_retrieved_at, evidence_count, quality_score, distinctiveness
    )
    SELECT p_corpus, s.entry_id, s.version_number, s.kind, s.title, s.tenant, s.repository, s.module, s.content_hash,
           s.state, s.state_reason, s.state_changed_at, s.merged_into, s.superseded_by, s.conflict_state, s.attempts,
           s.successes, s.retrievals, s.last_matched_at, s.last_retrieved_at, s.evidence_count, s.quality_score,
           s.distinctiveness
    FROM entry_snapshot(p_corpus, 'infinity', last_change, p_entry_ids) s;
    GET DIAGNOSTICS touched = ROW_COUNT;
    RETURN touched;
END;
$$;

-- When somebody used the corpus: the ground of the staleness clock. Totals without a time and the transfers of a run
-- are no activity.
CREATE FUNCTION corpus_activity(p_corpus text, p_as_of timestamptz, p_change bigint)
RETURNS TABLE (tenant text, used_at timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT DISTINCT v.tenant, date_trunc('minute', u.effective_at)
    FROM usage_events u
    JOIN (
        SELECT DISTINCT ON (w.entry_id) w.entry_id, w.tenant
        FROM entry_versions w
        WHERE w.corpus = p_corpus AND w.effective_at < p_as_of AND w.change_id <= p_change
        ORDER BY w.entry_id, w.version_number DESC
    ) v ON v.entry_id = u.entry_id
    WHERE u.corpus = p_corpus AND u.effective_at < p_as_of AND u.change_id <= p_change
      AND u.usage_type NOT IN ('baseline', 'transferred', 'strengthened')
$$;
