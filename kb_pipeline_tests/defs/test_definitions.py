"""The definitions: what Dagster loads, from nothing, and the flow that it shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from kb_pipeline.definitions import build_defs, defs
from kb_pipeline.defs.partitions import corpus_weeks
from kb_pipeline.defs.resources import Curation
from kb_pipeline.schemas import FRAMES
from kb_pipeline.stages import checks

FLOW = {
    "knowledge_entries": "",
    "entry_embeddings": "knowledge_entries",
    "distinctiveness_scores": "knowledge_entries",
    "gate_results": "knowledge_entries distinctiveness_scores entry_embeddings",
    "quality_scores": "knowledge_entries",
    "retirement_decisions": "knowledge_entries quality_scores",
    "quality_flags": "knowledge_entries",
    "duplicate_pairs": "knowledge_entries retirement_decisions entry_embeddings",
    "judge_verdicts": "knowledge_entries duplicate_pairs",
    "merge_plan": "knowledge_entries judge_verdicts",
    "conflict_records": "knowledge_entries judge_verdicts",
    "curation_plan": "knowledge_entries distinctiveness_scores gate_results quality_scores retirement_decisions "
    "judge_verdicts merge_plan conflict_records quality_flags",
    "applied_actions": "knowledge_entries distinctiveness_scores judge_verdicts conflict_records curation_plan",
    "health_report": "knowledge_entries distinctiveness_scores gate_results quality_scores retirement_decisions "
    "judge_verdicts merge_plan conflict_records curation_plan applied_actions quality_flags",
}
"""Each asset and what it is made from, in the order of the flow."""

GROUPS = {
    "1_load": ["knowledge_entries", "entry_embeddings"],
    "2_score": ["distinctiveness_scores", "gate_results", "quality_scores", "retirement_decisions", "quality_flags"],
    "3_dedup": ["duplicate_pairs", "judge_verdicts", "merge_plan", "conflict_records"],
    "4_apply": ["curation_plan", "applied_actions", "health_report"],
}


def test_they_load_from_an_empty_environment_and_touch_nothing(tmp_path: Path) -> None:
    script = "import kb_pipeline.definitions as d; print(len(list(d.defs.resolve_all_asset_specs())))"
    done = subprocess.run(
        [sys.executable, "-Wdefault", "-c", script], cwd=tmp_path, env={}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.strip()) == (0, str(len(FLOW))), done.stderr
    assert "kb_pipeline" not in done.stderr  # no warning of a line of ours
    assert list(tmp_path.iterdir()) == []


def test_nothing_heavy_is_imported_with_them() -> None:
    heavy = ["torch", "sentence_transformers", "great_expectations", "anthropic", "matplotlib", "faiss", "pandas"]
    script = f"import sys, kb_pipeline.definitions; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_graph_is_the_documented_flow() -> None:
    graph = defs.resolve_asset_graph()
    found = {
        key.path[-1]: {parent.path[-1] for parent in graph.get(key).parent_keys} for key in graph.get_all_asset_keys()
    }
    assert found == {name: set(parents.split()) for name, parents in FLOW.items()}


def test_groups_follow_the_flow_and_never_go_back() -> None:
    graph = defs.resolve_asset_graph()
    of = {key.path[-1]: graph.get(key).group_name for key in graph.get_all_asset_keys()}
    assert of == {name: group for group, names in GROUPS.items() for name in names}
    for name, parents in FLOW.items():
        assert all(of[parent] <= of[name] for parent in parents.split())  # type: ignore[operator]


@pytest.mark.parametrize("name", FLOW)
def test_every_asset_says_what_it_is(name: str) -> None:
    spec = {spec.key.path[-1]: spec for spec in defs.resolve_all_asset_specs()}[name]
    assert spec.partitions_def == corpus_weeks
    assert spec.owners == ["team:knowledge-base"]
    assert spec.description and spec.description[0].isupper() and "\n    " not in spec.description
    assert spec.kinds
    schema = spec.metadata.get("dagster/column_schema")
    if name == "health_report":
        assert schema is None
        return
    assert [column.name for column in schema.columns] == list(FRAMES[name].columns)
    assert all(column.description for column in schema.columns)
    assert [not column.constraints.nullable for column in schema.columns] == [
        not column.nullable for column in FRAMES[name].columns.values()
    ]


def test_checks_stand_where_they_belong() -> None:
    graph = defs.resolve_asset_graph()
    found = {(node.key.asset_key.path[-1], node.key.name): node for node in graph.asset_check_nodes}
    assert set(found) == {
        *(("curation_plan", name) for name in checks.BLOCKING),
        *(("health_report", name) for name in checks.WARNING),
    }
    for (asset, _), node in found.items():
        assert node.blocking is (asset == "curation_plan")
        assert node.description
        assert node.partitions_def == corpus_weeks


def test_the_job_runs_everything_of_one_partition_in_one_process() -> None:
    job = defs.resolve_job_def("weekly_curation")
    assert {key.path[-1] for key in job.asset_layer.executable_asset_keys} == set(FLOW)
    assert job.partitions_def == corpus_weeks
    assert job.executor_def.name == "in_process"
    assert defs.resolve_implicit_global_asset_job_def().executor_def.name == "in_process"


def test_the_sensor_is_on_and_the_report_has_a_date() -> None:
    sensor = defs.resolve_sensor_def("missing_weeks")
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    report = {spec.key.path[-1]: spec for spec in defs.resolve_all_asset_specs()}["health_report"]
    assert report.freshness_policy is not None


def test_parts_can_be_replaced() -> None:
    own = Curation(mode="recommend")
    changed = build_defs(curation=own)
    assert changed.resources is not None and defs.resources is not None
    assert changed.resources["curation"] is own
    assert set(changed.resources) == set(defs.resources) == {
        "knowledge_base", "curation", "corpus_lock", "io_manager",
    }  # fmt: skip
