"""What rows say of messages and entries of each shape, with the texts at both sides of each limit.

`python -m tests.page.shapes` writes the expectation again; a change then shows as a difference of
this file. It has the HTML of each row, in which a character that repeats often is written once,
with its number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from sessiontree.edits.tools import SideFacts
from sessiontree.page.markup import Colours
from sessiontree.page.rows import PageRow, TurnRows
from sessiontree.page.templates import Templates

EXPECTED: Final = Path(__file__).parent / "expected-rows.txt"
PNG: Final = "iVBORw0KGgo="
_TEMPLATES: Final = Templates()

Object = dict[str, Any]
Taken = Callable[[TurnRows], None]


def at(second: float) -> str:
    return f"2026-02-10T21:{int(second // 60):02}:{second % 60:06.3f}Z"


def said(message: Object, second: float = 0, **fields: Any) -> Taken:
    return lambda rows: rows.take_message(message, fields, at(second))


def user(content: Any, **fields: Any) -> Taken:
    return said({"role": "user", "content": content}, **fields)


def answer(content: Any, **more: Any) -> Taken:
    return said({"role": "assistant", "content": content, **more})


def entry(kind: str, /, **fields: Any) -> Taken:
    return lambda rows: rows.take(kind, {"type": kind, **fields}, at(0), "the-uuid")


def text(said: str) -> Object:
    return {"type": "text", "text": said}


def call(name: str = "bash", id: str = "c1", **arguments: Any) -> Object:
    return {"type": "toolCall", "id": id, "name": name, "arguments": arguments}


def result(content: Any, second: float = 0, id: str = "c1", **more: Any) -> Taken:
    return said({"role": "toolResult", "toolCallId": id, "content": content, **more}, second)


def around(limit: int, letter: str = "x") -> tuple[str, str]:
    """Texts that are as long as a limit, and one character longer."""
    return letter * limit, letter * (limit + 1)


def asked() -> Iterator[tuple[str, list[Taken]]]:
    """What is said in the user's name."""
    yield "a prompt of several parts", [user([text("one"), text("two")])]
    yield "prompts that are open and closed", [user(one) for one in around(12_000 - 25)]
    yield "a long prompt with an image", [user([text("x" * 13_000), image(data=PNG)])]
    yield "a prompt of an image alone", [user([image(data=PNG)])]
    yield "nothing", [user(""), user([]), user([text("")])]
    yield "two reminders and a word", [user(reminder("a\nb") + " word " + reminder("c"))]
    yield "a reminder that does not end", [user("a <system-reminder>b")]
    yield "long reminders", [user(reminder(one)) for one in around(100)]
    yield "a command", [user("<command-name>/x</command-name><command-args>y</command-args>")]
    yield "a note of a task", [user("<task-notification>done</task-notification>")]
    yield "a program", [user("hook", isMeta=True), user("hook", metadata={"isMeta": True})]
    yield "an interruption", [user("[Request interrupted by user]")]
    yield (
        "an interruption in parts",
        [user([text("[Request interrupted by user for tool use]"), text("and more")])],
    )
    yield "a shell", [shell("ls", "a", 0), shell("ls\nx", None, 2), shell(None, "a", None)]
    yield "long commands of a shell", [shell(one, "", True) for one in around(160)]
    yield "system", [said({"role": "system", "content": "y" * 1234})]
    yield "developer", [said({"role": "developer", "content": [text("a"), text("b")]})]
    yield (
        "other roles",
        [
            said({"role": "critic", "content": "no"}),
            said({"content": "nobody"}),
            said({"role": "z" * 61, "content": "w" * 101}),
        ],
    )


def answers() -> Iterator[tuple[str, list[Taken]]]:
    """What a model says."""
    yield (
        "texts and thoughts",
        [
            answer(
                [
                    *({"type": "thinking", "thinking": "why " + "t" * 97}, text("so")),
                    *({"type": "thinking", "thinking": "", "signature": "s"}, text(" \n")),
                    {"type": "redacted_thinking", "data": "AA=="},
                ]
            )
        ],
    )
    yield "an unknown block", [answer([{"type": "video", "length": 3}, {"a": 1}, text("")])]
    yield (
        "models",
        [
            *(answer("a", model="one"), answer("b", model="one"), answer("c", model="two")),
            *(answer("d", model="<synthetic>"), answer("e", model=""), answer("f", model=3)),
            *(answer("g", model="m" * 101), entry("model_change", modelId="two")),
            answer("h", model="two"),
        ],
    )
    yield (
        "errors",
        [
            answer("", stopReason="error", errorMessage="e" * 300),
            answer("said", stopReason="error", errorMessage="e" * 301),
            answer([call()], stopReason="error", errorMessage="boom"),
        ],
    )
    yield "broken off", [answer("half", stopReason="aborted"), answer("half", partial=True)]
    yield "a refusal", [answer("", refusal="No **way**"), answer("a", refusal=""), answer(None)]
    yield (
        "calls of another shape",
        [
            said(
                {
                    "role": "assistant",
                    "content": "x",
                    "tool_calls": [
                        {"id": "a", "function": {"name": "f", "arguments": '{"path": "/p/a.py"}'}},
                        {"id": "b", "function": {"name": "g", "arguments": "no json"}},
                    ],
                }
            ),
            said({"role": "tool", "tool_call_id": "b", "content": "of b"}),
        ],
    )
    yield (
        "items",
        [
            said({"type": "reasoning", "summary": [], "encrypted_content": "AA"}),
            said({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}),
            said({"type": "web_search_call", "status": "completed", "query": "x"}),
            said(
                {
                    "type": "function_call",
                    "call_id": "a",
                    "name": "f",
                    "arguments": '{"cmd": ["ls", "-l"]}',
                }
            ),
            said({"type": "function_call_output", "call_id": "a", "output": "out"}),
            said({"type": "function_call_output", "call_id": "b", "output": "lost"}),
        ],
    )


def calls() -> Iterator[tuple[str, list[Taken]]]:
    """Calls, and their results."""
    for key in (*TARGETS, "other"):
        yield f"a call with {key}", [answer([call(**{key: "t"})])]
    yield (
        "the first of several targets",
        [
            answer([call(pattern="p", path="")]),
            answer([call(query="q", url="u")]),
            answer([call(path=3, name2="n", command=["a", 1])]),
        ],
    )
    yield (
        "targets below the folder",
        [answer([call(path="/p/a.py"), call(path="/pp/a.py", id="2")])],
    )
    yield "long targets", [answer([call(path=one)]) for one in around(120)]
    yield "long names", [answer([call(name=one)]) for one in ("", *around(60))]
    arguments: tuple[Any, ...] = ("raw", None, [1], {})
    for given in arguments:
        yield f"arguments {given!r}", [answer([{**call(), "arguments": given}])]
    yield (
        "arguments of several lines",
        [answer([call(a="x\ny", b="x\n", n=1, **{"k" * 61: "1\n2"})])],
    )
    yield (
        "the same id twice",
        [answer([call(command="a")]), answer([call(command="b")]), result("r")],
    )
    for second in (0, 0.999, 1, 61):
        yield f"a result after {second} s", [answer([call()]), result("r", second)]
    yield "a result without a call", [result("r"), result("r", id="", toolName="n" * 61)]
    yield "a result that failed", [answer([call()]), result("r", isError=True)]
    for content in ("", None, {"a": 1}, [], [text("a"), image(data=PNG)], [{"type": "x"}], 3):
        yield f"a result {content!r:.40}", [answer([call()]), result(content)]
    yield (
        "long results",
        [item for one in around(200_000) for item in (answer([call()]), result(one))],
    )
    yield (
        "two results and a text",
        [
            answer([call(), call(id="c2")]),
            user(
                [
                    {"type": "tool_result", "tool_use_id": "c2", "content": "second"},
                    {"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": True},
                    text("and a word"),
                ]
            ),
        ],
    )
    for old, new in (("a\n", "b\nc\n"), ("a\n", ""), ("", "a\n"), ("a", "a")):
        edit = call("edit", path="/p/a.py", oldText=old, newText=new)
        yield f"an edit {old!r} {new!r}", [answer([edit]), result("done")]
    edit = call("edit", path="/p/a.py", oldText="a", newText="b")
    yield "an edit that failed", [answer([edit]), result("no", isError=True)]
    yield "an edit without a result", [answer([edit])]
    yield (
        "a long path",
        [
            item
            for one in around(200, "p")
            for item in (answer([call("write", path=one, content="a\n")]), result("done"))
        ],
    )
    yield (
        "a commit",
        [
            answer([call(command="git commit -m x")]),
            result("[main 1a2b3c4] x\n 1 file changed\n"),
        ],
    )


def entries() -> Iterator[tuple[str, list[Taken]]]:
    """Entries that are not messages."""
    for kind in ("compaction", "branch_summary", "stack_summary", "merge"):
        yield (
            f"{kind} with summaries",
            [
                entry(
                    kind,
                    summary=one,
                    fromUuid="12345678-1",
                    mergedUuid="abcdefgh-1",
                    tokensBefore=1234,
                )
                for one in ("", "**s**", *around(600))
            ],
        )
        yield f"{kind} alone", [entry(kind, summary=3, mergedUuid="abcdefgh-1", tokensBefore="x")]
    yield (
        "settings",
        [
            entry("model_change", provider="p", modelId="m"),
            entry("model_change", modelId="m" * 201),
            entry("thinking_level_change", thinkingLevel="high"),
            entry("context_edit", targetUuid="12345678-1", replacement=None),
            entry("context_edit", targetUuid="12345678-1", replacement={"content": "c"}),
            entry("context_edit", targetUuid=None, replacement={"content": "c"}),
        ],
    )
    yield (
        "annotations",
        [
            entry("label", targetUuid="t", label="l", uuid="u", parentUuid="p", crc="c"),
            entry("custom", customType="own", data={"a": "d" * 200}),
            entry("custom", customType=3),
            entry("custom", customType="o" * 61),
            entry("branch", name="n"),
            entry("stack_push", note="n"),
            entry("session_info", name="n"),
            entry("usage", kind="k"),
        ],
    )
    yield (
        "messages of programs",
        [
            entry("custom_message", customType="own", content="hi", display=True),
            entry("custom_message", content=[text("hi")]),
        ],
    )
    yield "unknown types", [entry("own", a=1), entry("o" * 61, a=1)]
    yield "entries without content", [lambda rows: rows.add_empty("e" * 61, at(0))]


def images() -> Iterator[tuple[str, list[Taken]]]:
    """Images: inside, elsewhere, and such as are none."""
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    shapes: tuple[Object, ...] = (
        image(data=PNG),
        image(data=f" {PNG}\n", mimeType="Image/PNG; x=y"),
        image(data="no base 64!"),
        image(data=PNG, mimeType="image/svg+xml"),
        image(data=PNG, mimeType=None, mime_type="image/png"),
        image(source=source),
        image(source={**source, "media_type": 3}),
        image(source={"type": "url", "url": "https://a.test/b.png"}),
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": f"data:image/gif;x=y;base64,{PNG}"},
        {"type": "image_url", "image_url": {"url": "https://a.test/b.png"}},
        {"type": "input_image", "image_url": "http://a.test:80/b.png"},
        {"type": "input_image", "image_url": "file:///b.png"},
        {"type": "input_image", "url": "https://[a"},
        {"type": "image"},
        {"type": "own", "mimeType": "image/png", "data": PNG},
        {"type": "own", "source": source},
        {"type": "own", "data": PNG},
    )
    for number, shape in enumerate(shapes):
        yield f"image {number}", [user([shape])]


def image(**fields: Any) -> Object:
    return {"type": "image", "mimeType": "image/png", **fields}


def reminder(words: str) -> str:
    return f"<system-reminder>{words}</system-reminder>"


def shell(command: Any, output: Any, code: Any) -> Taken:
    return said({"role": "bashExecution", "command": command, "output": output, "exitCode": code})


TARGETS: Final = (
    *("file_path", "path", "filePath", "notebook_path", "absolute_path", "filename", "command"),
    *("cmd", "pattern", "query", "url", "description", "skill", "prompt", "subject", "name"),
)


def printed() -> str:
    """What the rows of all shapes say."""
    return "\n".join(_said())


def _said() -> Iterator[str]:
    for group in (asked, answers, calls, entries, images):
        for name, taken in group():
            yield f"\n## {name}"
            yield from _rows_of(taken, "/p", is_subagent=False)
    for cwd in (None, "", "/", "/p/"):
        yield f"\n## in the folder {cwd!r}"
        yield from _rows_of([answer([call(path="/p/a.py")])], cwd, is_subagent=False)
    yield "\n## of a subagent"
    yield from _rows_of([user("go"), user("more")], None, is_subagent=True)


def _rows_of(taken: list[Taken], cwd: str | None, *, is_subagent: bool) -> Iterator[str]:
    rows = TurnRows(_TEMPLATES, lambda: SideFacts({}), cwd, Colours(), is_subagent=is_subagent)
    for take in taken:
        take(rows)
    for row in rows.rows:
        yield _squeezed(_line(row))
    for change in rows.changes:
        yield f"changed at {change.place}: {change.edit.kind} {change.edit.path}"
    for commit in rows.commits:
        yield f"commit at {commit.place}: {commit.commit}"
    if rows.models is not None:
        yield _squeezed(f"models: {rows.models}")


def _line(row: PageRow) -> str:
    parts: Mapping[str, str | None] = {"gist": row.gist, "time": row.time}
    told = " ".join(f"{key}={value!r}" for key, value in parts.items())
    return f"{row.kind} {told}\n  {_on_one_line(row.head)}\n  {_on_one_line(row.body)}"


def _on_one_line(html: str) -> str:
    return html.replace("\n", "↵")


def _squeezed(line: str) -> str:
    return re.sub(r"([^ ])\1{15,}", lambda run: f"{run[1]}×{len(run[0])}", line)


def main() -> None:
    EXPECTED.write_text(printed() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
