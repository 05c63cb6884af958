-- The weekly health numbers of each corpus, all repositories together.
CREATE VIEW health_trend AS
SELECT corpus, week, sum(entry_count) AS entry_count, sum(active) AS active, sum(candidates) AS candidates,
       sum(needs_review) AS needs_review, sum(archived) AS archived, sum(conflicted) AS conflicted,
       sum(queue_length) AS queue_length, sum(retired) AS retired, sum(merged) AS merged
FROM report_health
GROUP BY corpus, week;
