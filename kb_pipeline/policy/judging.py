"""The sections of the policy about models that judge: pairs (``judge``), and windows of recent entries (``curator``)."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from kb_pipeline.policy.sections import Count, Days, Section, Share


class ModelPrice(Section):
    """What a model costs, in USD per million tokens."""

    input: Annotated[float, Field(ge=0, description="tokens read")]
    output: Annotated[float, Field(ge=0, description="tokens written")]
    cache_write: Annotated[float, Field(ge=0, description="tokens read and kept by the service")]
    cache_read: Annotated[float, Field(ge=0, description="tokens that the service had kept")]
    batch_share: Annotated[Share, Field(description="a batch costs this share of all four")]


class JudgePolicy(Section):
    """Who judges pairs (K7, K8)."""

    name: Annotated[
        Literal["auto", "rule", "anthropic", "replay"],
        Field(
            description="`auto`: anthropic if the key is set, else the offline rule judge; `replay`: recorded verdicts"
        ),
    ]
    replay_file: Annotated[
        str | None, Field(min_length=1, description="the verdicts that `replay` repeats, as `kb verdicts` writes them")
    ]
    model: Annotated[str, Field(min_length=1, description="model of the network judge")]
    api_key_env: Annotated[str, Field(min_length=1, description="environment variable that holds the key")]
    base_url: Annotated[str | None, Field(description="another address of the Messages API")]
    timeout_seconds: Annotated[float, Field(gt=0, le=3600, description="patience with one call")]
    max_retries: Annotated[int, Field(ge=0, le=10, description="repeats of a call that failed in passing")]
    max_calls: Annotated[Count, Field(description="K7: so many pairs of the merge band are asked about in a run")]
    max_borderline_calls: Annotated[
        Count, Field(description="K8: so many borderline pairs are asked about in a run, then those found by words")
    ]
    max_tokens: Annotated[
        int | None, Field(ge=1, description="no pair is asked about after so many tokens of a run; null: no limit")
    ]
    max_cost_usd: Annotated[
        float | None,
        Field(gt=0, description="no pair is asked about that could bring a run above so much; null: no limit"),
    ]
    prices: Annotated[
        dict[str, ModelPrice],
        Field(
            description="USD per million tokens of each model, yours to keep up to date: those shipped are list prices as "
            "published in autumn 2026; a model that is not named has an unknown cost"
        ),
    ]
    delivery: Annotated[
        Literal["auto", "batch", "direct"],
        Field(
            description="pairs go out one by one, or as a batch at a lower price; `auto`: as a batch from the next value on"
        ),
    ]
    min_batch_pairs: Annotated[int, Field(ge=1, description="fewer pairs than this are asked about directly")]
    max_batch_wait_minutes: Annotated[
        float,
        Field(ge=0, le=1440, description="a run waits so long for its batches; the next run takes up what came later"),
    ]
    batch_poll_seconds: Annotated[
        float, Field(gt=0, le=600, description="from the first look at a batch to the second; then ever longer")
    ]
    max_concurrency: Annotated[int, Field(ge=1, le=64, description="direct calls at the same time")]
    min_confidence: Annotated[Share, Field(description="a less confident MERGE goes to review")]
    max_text_chars: Annotated[int, Field(ge=100, description="a longer text is never sent, the pair goes to review")]
    min_gold_precision: Annotated[
        Share, Field(description="X6: halt when fewer of the rules' merges on the shipped gold set are right")
    ]

    @model_validator(mode="after")
    def _is_complete(self) -> JudgePolicy:
        if self.name == "replay" and self.replay_file is None:
            raise ValueError("judge.name: replay needs judge.replay_file, a file that kb verdicts has written")
        if self.max_cost_usd is not None and self.price() is None:
            raise ValueError(
                f"max_cost_usd limits a cost that is not known: judge.prices names no price of the model {self.model}"
            )
        return self

    def price(self) -> ModelPrice | None:
        """The price of the model, by its name or by its name without the date at its end; None when none is named."""
        return self.prices.get(self.model) or self.prices.get(re.sub(r"-\d{8}$", "", self.model))


class CuratorPolicy(Section):
    """The pass over recent entries (P2-P6); nothing else reads these values."""

    max_age_days: Annotated[
        Days,
        Field(description="P6: recent is a text that is at most so many days old, or that came since the last pass"),
    ]
    max_entries: Annotated[int, Field(ge=1, description="a pass looks at so many recent entries, the newest")]
    flag_gates: Annotated[
        bool, Field(description="a recent active entry that a gate would not let in today is asked about")
    ]
    ask_model: Annotated[
        bool, Field(description="P2: a network judge, where one is in force, also reads recent entries many at a time")
    ]
    max_calls: Annotated[Count, Field(description="so many such readings in a pass; the rest waits for the next")]
    max_entries_per_call: Annotated[int, Field(ge=2, le=200, description="entries in one reading")]
    max_call_chars: Annotated[int, Field(ge=1000, description="and so many code points of their texts together")]
    min_confidence: Annotated[
        Share, Field(description="P3, P6: a duplicate that the model names with less confidence is passed over")
    ]
