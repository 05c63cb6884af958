"""All pairs above a cosine: the search engine. Arithmetic on arrays; it knows neither entries nor policy.

Stages call it. Ledger K4 (nearest neighbours) and K6 (all pairs).
"""
