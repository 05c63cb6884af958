"""The Dagster wiring: what is run, when and with what. Nothing is decided here."""
