"""The assets of the weekly curation, one module a stage word. Each loads, calls its stage, and says what came out."""
