"""The review pages and the HTTP API: the review desk, for browsers and programs."""
