"""kb_pipeline."""
