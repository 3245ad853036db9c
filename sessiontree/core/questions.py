"""Questions that an agent asks the user with a tool, and the user's answers.

Each agent has a tool of its own for it, and writes the answers in its own way. A text that is not
understood counts as the answer to the first question, so that no word of the user is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from sessiontree.core.message import (
    ToolCall,
)

_TOOLS: Final = frozenset(
    {
        *("AskUserQuestion", "request_user_input", "ask_user", "ask_user_question"),
        *("question", "questionnaire", "ask_followup_question"),
    }
)
_MAX: Final = 20  # questions of a call
_LONGEST: Final = 1 << 16  # characters of arguments and of answers
_AFTER: Final = '". You can now'
"""What follows the last answer in Claude Code."""


class Question(NamedTuple):
    """A question, and the name under which a program may write the answer."""

    question: str
    name: str


class QuestionReply(NamedTuple):
    """A question with the answer."""

    question: str
    answer: str


def questions_of(call: ToolCall) -> list[Question]:
    """The questions that a call asks the user; empty for any other call."""
    if call.name not in _TOOLS:
        return []
    given = call.arguments
    if isinstance(given, str):
        given = _object_in(given)
    if not isinstance(given, Mapping):
        return []
    listed = given.get("questions")
    found = listed[:_MAX] if isinstance(listed, list) else [given]
    return [
        Question(text, name if isinstance(name := one.get("id"), str) else str(number))
        for number, one in enumerate(found)
        if isinstance(one, Mapping) and (text := _question_in(one))
    ]


def _question_in(one: Mapping[str, Any]) -> str:
    text = one.get("question", one.get("prompt"))
    return text if isinstance(text, str) else ""


def answers_in(result: str, asked: Sequence[Question]) -> list[QuestionReply]:
    """The answers in the text of the result of a call that asked these questions."""
    if not asked:
        return []
    text = result[:_LONGEST]
    found = [*_by_name(text, asked)] or [*_quoted(text, asked)]
    return found or ([QuestionReply(asked[0].question, text.strip())] if text.strip() else [])


def _by_name(text: str, asked: Sequence[Question]) -> Iterator[QuestionReply]:
    """The answers in an object of JSON, as Codex and Gemini CLI write them."""
    given = _object_in(text).get("answers")
    if not isinstance(given, Mapping):
        return
    for question, name in asked:
        answer = given.get(name, given.get(question))
        if isinstance(answer, Mapping):
            answer = answer.get("answers")
        said = answer if isinstance(answer, list) else [answer]
        if told := ", ".join(one for one in said if isinstance(one, str) and one):
            yield QuestionReply(question, told)


def _quoted(text: str, asked: Sequence[Question]) -> Iterator[QuestionReply]:
    """The answers in a sentence such as `"question"="answer", …`, as Claude Code writes them."""
    starts = [(text.find(f'"{question}"="'), question) for question, _ in asked]
    for at, question in starts:
        if at < 0:
            continue
        start = at + len(question) + 4
        later = [other for other, _ in starts if other > at]
        end = text.rfind('"', start, min(later) - 1) if later else text.rfind(_AFTER, start)
        end = end if end >= 0 else text.rfind('"', start)
        if answer := text[start : end if end >= 0 else len(text)].strip():
            yield QuestionReply(question, answer)


def _object_in(text: str) -> Mapping[str, Any]:
    if not text.startswith("{") or len(text) > _LONGEST:
        return {}
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
