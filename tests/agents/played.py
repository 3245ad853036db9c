"""Plays a session of the real program of an agent offline, against a model that is made here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from tests.agents.qwen_driver import WAIT, Json, text
from tests.examples.model_server import model_server

SHOWN: Final = "/home/user/project"
"""The working directory in a sample."""

PROMPT: Final = "Why do our retries hammer the API? Fix the notes."


def played(
    program: str,
    folder: Path,
    prepare: Callable[[str], Iterable[list[str]]],
    answers: Callable[[Path], list[list[Json]]],
) -> Path:
    """Run a program in a project that has notes; the project's folder.

    Args:
        program: the path of the program.
        folder: the user's home, and the folder of the project.
        prepare: gives the arguments of each run, given the address of the model.
        answers: the blocks of each answer to a request with tools, given the file of the notes.
    """
    project = folder / "project"
    project.mkdir()
    notes = project / "notes.md"
    notes.write_text("# Notes\nRetries hammer the API.\n")
    given = iter(answers(notes))

    def answer(api: str, body: Json) -> list[Json]:
        return next(given, [text("All done.")]) if body.get("tools") else [text("Notes")]

    with model_server(answer) as model:
        for arguments in prepare(model.environment()["OPENAI_BASE_URL"]):
            subprocess.run(
                [program, *arguments],
                cwd=project,
                env={**os.environ, "HOME": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                timeout=WAIT,
            )
    return project
