"""Parts of a transcript."""

from __future__ import annotations

from typing import Any

import pytest

from sessiontree.views.markdown import ran


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"exitCode": 0}, []),
        ({"exitCode": 3}, ["*Exit code 3.*"]),
        ({"exitCode": "3"}, []),
        ({"exitCode": None, "output": ""}, []),
        ({"output": 5}, []),
        ({"output": "done"}, ["Result:\n\n```\ndone\n```"]),
    ],
)
def test_a_command_is_told_with_its_output_and_with_a_code_that_says_it_failed(
    fields: dict[str, Any], told: list[str]
) -> None:
    said = ran({"role": "bashExecution", "command": "ls", **fields})
    assert said.split("\n\n", 1)[1:] == told
