"""Adapters: everything that touches the outside - Postgres, models, files. Stages never import them."""
