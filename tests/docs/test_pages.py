"""The documents are complete and current: links, tables, reference, architecture."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sessiontree
from sessiontree.core import damage, limits, message
from sessiontree.core.damage import NEXT_STEP
from sessiontree.engine import translated
from sessiontree.operations import own_rules
from sessiontree.redact import redaction
from sessiontree.storage import lines, names
from sessiontree.views import markdown
from tests.docs.examples import PAGES, ROOT
from tests.support.table import for_each

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = (
    *PAGES,
    *(ROOT / name for name in ("MIGRATION.md", "CHANGELOG.md", "benchmarks/README.md")),
)
PACKAGE = ROOT / "sessiontree"


def _relative(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_the_readme_is_one_page() -> None:
    assert len(README.splitlines()) <= 190


def test_the_readme_has_the_two_commands_that_the_checks_run() -> None:
    commands = re.findall(r"<!-- command: (\w+) -->\n```sh\n(.*?)\n```", README)
    assert dict(commands).keys() == {"demo", "tests"}
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert all(f"readme_command {name}" in run for name, _ in commands)


def test_every_figure_about_others_in_the_readme_is_in_the_benchmarks() -> None:
    table = README.partition("## What others do")[2].partition("\n## ")[0]
    figures = re.findall(r"(?<=\| )[\d.,]+ (?:ms|µs|s|MB)(?= \|)", table)
    measured = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert len(figures) > 20
    assert [figure for figure in figures if figure not in measured] == []


def test_the_links_of_a_document_lead_somewhere() -> None:
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for target, name in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", text):
            other = document.parent / target if target else document
            assert other.exists(), target
            assert not name or name in _anchors(other), f"{target}#{name}"
        for path in re.findall(r"`((?:sessiontree|tests|benchmarks|docs)/[\w./]+\.\w+)`", text):
            assert (ROOT / path).exists(), path


def _anchors(file: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_every_page_is_linked_from_the_page_of_all_pages() -> None:
    top = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    linked = {(ROOT / "docs" / name).resolve() for name in re.findall(r"\]\(([\w/-]+\.md)", top)}
    assert set(PAGES) - linked == {ROOT / "README.md", ROOT / "docs" / "README.md"}


def test_the_lines_shown_in_the_specification_are_a_sound_session(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    file = tmp_path / "shown.jsonl"
    file.write_text(re.findall(r"```jsonl\n(.*?)```", page, re.DOTALL)[0], encoding="utf-8")
    with sessiontree.Session.open(file, readonly=True) as session:
        assert session.stats().entries == 3
        assert session.verify() == []


def test_the_lines_of_version_1_shown_become_the_lines_below_them(tmp_path: Path) -> None:
    page = (ROOT / "MIGRATION.md").read_text(encoding="utf-8")
    shown = re.findall(r"```jsonl\n(.*?)\n```", page, re.DOTALL)[0]
    pairs = [pair.split("\n") for pair in shown.split("\n\n")]
    file = tmp_path / "shown.jsonl"
    file.write_text("".join(f"{old}\n" for old, _ in pairs), encoding="utf-8")
    sessiontree.Session.open(file).close()
    assert file.read_text(encoding="utf-8").splitlines() == [new for _, new in pairs]


def test_every_kind_of_damage_is_in_the_table_of_the_durability_page() -> None:
    page = (ROOT / "docs" / "durability.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([\w -]+)` \|", page.partition("\n## Damage")[2], re.MULTILINE)
    assert sorted(listed) == sorted(NEXT_STEP)


@pytest.mark.slow
@for_each("script", ["make_reference.py", "make_schema.py"])
def test_what_a_script_makes_of_the_code_is_current(script: str) -> None:
    command = [sys.executable, str(ROOT / "docs" / script), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_reference_has_every_public_name_and_command() -> None:
    folder = ROOT / "docs" / "reference"
    python = (folder / "python.md").read_text(encoding="utf-8")
    headings = set(re.findall(r"^##+ (\w+)", python, re.MULTILINE))
    assert set(sessiontree.__all__) - headings == set()


def test_every_public_name_and_every_method_of_a_session_is_documented() -> None:
    for name in sessiontree.__all__:
        assert (getattr(sessiontree, name).__doc__ or "").strip(), name
    for name in dir(sessiontree.Session):
        if not name.startswith("_"):
            docs = [vars(base)[name].__doc__ for base in _homes(name)]
            assert any(docs), name


def _homes(name: str) -> list[type]:
    return [base for base in sessiontree.Session.__mro__ if name in vars(base)]


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_module_that_the_architecture_names_exists() -> None:
    named = re.findall(r"`?\b((?:\w+/)*\w+\.py)\b", ARCHITECTURE.partition("## Five classes")[2])
    assert [path for path in named if not (PACKAGE / path).exists() | (ROOT / path).exists()] == []


def test_every_call_in_the_flows_is_in_the_module_beside_it() -> None:
    flows = ARCHITECTURE.partition("## Four flows")[2].partition("\n## ")[0]
    calls = re.findall(r"^ {4,}(\S+) {2,}([\w/]+\.py)", flows, re.MULTILINE)
    assert len(calls) > 30
    for call, path in calls:
        source = (PACKAGE / path).read_text(encoding="utf-8")
        for name in call.split("."):
            assert re.search(rf"\b(?:def|class) {name}\b", source), f"{call} in {path}"


def test_the_architecture_draws_the_rooms_in_the_order_of_their_imports() -> None:
    drawing = re.findall(r"```text\n(.*?)```", ARCHITECTURE, re.DOTALL)[0]
    drawn = [re.split(r" {2,}", line)[0] for line in drawing.splitlines()]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = contracts["tool"]["importlinter"]["contracts"][0]["layers"]
    assert drawn == layers


MIB = 1024 * 1024

LIMITS = {
    "entries of merges in a context": f"{limits.MERGED_AGAIN.most:,}",
    "entries of merges in a copy": f"{limits.MERGED_INTO_COPY.most:,} entries",
    "entries of a conversion": f"{limits.READ_AGAIN.most:,}",
    "lanes": f"{limits.LANE_FILES.most:,} lanes",
    "lines of lanes": f"{limits.LANE_LINES.most:,}",
    "bytes of a session for each line": f"each {limits.LANE_LINES.bytes_for_each} bytes",
    "repeated bytes": f"{limits.REPEATED_BYTES.most // MIB} MiB of repeated lines",
    "request": f"{limits.REQUEST_BYTES.most // MIB} MiB of messages",
    "times": f"{limits.REPEATED_BYTES.for_each_byte} times the size of the session",
    "bytes of a session for each": str(limits.BYTES_FOR_EACH_READ),
    "prompts of Codex": f"{limits.REPEATED_PROMPTS.most:,} repeated prompts",
    "blocks": f"{message.MAX_BLOCKS:,} content blocks|{message.MAX_BLOCKS:,} blocks",
    "bytes for each block": f"one for each {limits.SHOWN_BLOCKS.bytes_for_each} bytes",
    "blocks of a request": f"{limits.REQUEST_BLOCKS.most:,}",
    "short lines": f"{limits.SHORT_TEXTS.most:,}",
    "short": f"lines, messages or calls of less than {limits.SHORT_BYTES} bytes",
    "bytes for each short line": f"one for each {limits.SHORT_TEXTS.bytes_for_each} bytes",
    "unpacked": f"{lines.LARGEST_RATIO} times",
    "always unpacked": f"{lines.ALWAYS_UNPACKED // MIB} MiB",
    "a result": f"{names.LARGEST_RESULT // MIB} MiB",
    "facts": f"{translated._SIDECAR_LIMIT // MIB} MiB",
    "findings": f"{damage.MAX_FINDINGS:,}",
    "warnings": f"{markdown._MAX_WARNINGS:,}",
    "nested": f"deeper than {message._DEEPEST_INDENTED} levels",
    "own rule": f"{own_rules.LIMIT_SECONDS:.0f} seconds for a text",
    "command": f"{redaction._LONGEST_COMMAND:,} characters",
}


def test_each_limit_is_named_with_its_figure() -> None:
    for page in ("CHANGELOG.md", "docs/durability.md"):
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        assert [
            what for what, figure in LIMITS.items() if not re.search(rf"\b{figure}\b", text)
        ] == [], page
