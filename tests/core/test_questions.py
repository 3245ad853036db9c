"""What a user replied to the questions of a tool, in the form of each agent."""

from __future__ import annotations

import json
from typing import Any

from sessiontree.core.activity import answers_in, questions_of
from sessiontree.core.message import Call

TWO = [
    {"id": "db", "question": 'Which "store"?', "header": "Store"},
    {"id": "n", "question": "How many?"},
]
BOTH = [('Which "store"?', "SQLite"), ("How many?", "2, or 3")]


def told(name: str, arguments: Any, result: str) -> list[tuple[str, str]]:
    asked = questions_of(Call("c", name, arguments, "tool_use"))
    return [(question, reply) for question, reply in answers_in(result, asked)]


def test_the_replies_of_a_user_are_read() -> None:
    cases: list[tuple[str, Any, str, list[tuple[str, str]]]] = [
        (
            "AskUserQuestion",
            {"questions": TWO},
            'User has answered your questions: "Which "store"?"="SQLite", "How many?"="2, or 3". '
            "You can now continue with the user's answers in mind.",
            BOTH,
        ),
        (
            "AskUserQuestion",
            {"questions": TWO},
            'User has answered your questions: "How many?"="say "two""',
            [("How many?", 'say "two"')],
        ),
        (
            "AskUserQuestion",
            {"questions": TWO},
            'User has answered your questions: "How many?"="cut of',
            [("How many?", "cut of")],
        ),
        (
            "request_user_input",
            json.dumps({"questions": TWO}),
            '{"answers":{"db":{"answers":["SQLite"]},"n":{"answers":["2","or 3"]}}}',
            BOTH,
        ),
        ("ask_user", {"questions": TWO}, '{"answers":{"0":"SQLite","n":"2, or 3"}}', BOTH[1:]),
        (
            "ask_user",
            {"questions": [{"question": "Why?"}]},
            '{"answers":{"0":"So"}}',
            [("Why?", "So")],
        ),
        ("question", {"question": "Why?"}, "User wrote: so\n", [("Why?", "User wrote: so")]),
        ("question", {"question": "Why?"}, '{"answers": 3', [("Why?", '{"answers": 3')]),
        ("question", {"question": "Why?"}, " ", []),
        ("Bash", {"question": "Why?"}, "x", []),
        ("question", "not JSON", "x", []),
        ("question", {"questions": [7, {"question": 7}]}, "x", []),
    ]
    for name, arguments, result, replies in cases:
        assert told(name, arguments, result) == replies
