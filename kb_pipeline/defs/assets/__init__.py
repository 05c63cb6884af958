"""The assets of the weekly curation, one module a stage word. Each loads, calls its stage, and says what came out."""

import warnings

# Ordered weeks and checks of one partition are beta features of Dagster that are used on purpose.
warnings.filterwarnings("ignore", message=".*is currently in (beta|preview).*", module=r"kb_pipeline\.defs")
