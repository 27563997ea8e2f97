"""What all hosted workflows keep to, and the other files that are for the hosting site."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from folders import REPOSITORY
from ruamel.yaml import YAML  # check-jsonschema brings it

HOSTED = REPOSITORY / ".github"
WORKFLOWS = {file.name: file for file in (HOSTED / "workflows").iterdir()}
CITATION = REPOSITORY / "CITATION.cff"


def read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(file)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", WORKFLOWS.values()),
        ("github-issue-forms", (HOSTED / "ISSUE_TEMPLATE").iterdir()),
        ("citation-file-format", [CITATION]),
    ],
)
def test_files_follow_their_schema(schema: str, files: Iterable[Path], capsys: pytest.CaptureFixture[str]) -> None:
    import check_jsonschema  # not at the top: it takes seconds

    words = ["--builtin-schema", f"vendor.{schema}", "--default-filetype", "yaml", *map(str, files)]
    with pytest.raises(SystemExit) as ended:
        check_jsonschema.main(words)

    assert ended.value.code == 0, capsys.readouterr()


def test_every_action_is_pinned_by_one_commit() -> None:
    used = {line for file in WORKFLOWS.values() for line in re.findall(r"uses:\s*(.*)", file.read_text("utf-8"))}
    pins = [re.fullmatch(r"([\w/-]+)@[0-9a-f]{40} # v\d+\.\d+\.\d+", line) for line in used]

    assert None not in pins, used
    assert len({pin[1] for pin in pins if pin}) == len(used)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_job_may_do_what_it_must_and_ends(name: str) -> None:
    workflow = read(WORKFLOWS[name])

    assert workflow["permissions"] == {}
    assert workflow["defaults"] == {"run": {"shell": "bash"}}  # which sets pipefail
    for job in workflow["jobs"].values():
        # What a person approves, before it starts, may prove to the index which workflow it is.
        assert job["permissions"] == ({"id-token": "write"} if "environment" in job else {"contents": "read"})
        assert job["timeout-minutes"] <= 180
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")  # a value would become a part of the script
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_a_fork_needs_no_secret() -> None:
    text = WORKFLOWS["ci.yml"].read_text("utf-8")

    assert not re.search(r"secrets\.|pull_request_target|self-hosted|environment:", text)


def test_pre_commit_calls_what_ci_calls_and_nothing_else() -> None:
    repositories = read(REPOSITORY / ".pre-commit-config.yaml")["repos"]
    rows = read(WORKFLOWS["ci.yml"])["jobs"]["check"]["strategy"]["matrix"]["include"]

    assert [(each["repo"], [hook["entry"] for hook in each["hooks"]]) for each in repositories] == [
        ("local", ["ci/lint"])
    ]
    assert {row["check"] for row in rows} == {"ci/lint", "ci/docs", "ci/test quick", "ci/test"}
    assert '"$root/ci/lint" style' in (script := (REPOSITORY / "ci/test").read_text("utf-8"))
    assert '"$root/ci/lint" types' in script


def test_the_citation_has_the_version() -> None:
    assert read(CITATION)["version"] == runpy.run_path(str(REPOSITORY / "splat/_version.py"))["VERSION"]
