"""An agent on Anthropic's API. It keeps its conversation in a file, and goes on from there.

    pip install sessiontree anthropic
    python examples/anthropic_agent.py chat.jsonl

Each line of the standard input is a prompt. Stop the program where you like, also while a tool
runs, and start it again: the model gets a valid context.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic
from anthropic.types import ToolParam, ToolResultBlockParam, ToolUseBlock

from sessiontree import Session

MODEL = "claude-opus-4-6"
SYSTEM = "You are a coding agent. Use the tools to answer."


def tool(name: str, description: str, *parameters: str) -> ToolParam:
    """A tool whose parameters are all texts."""
    schema: dict[str, object] = {
        "type": "object",
        "properties": {parameter: {"type": "string"} for parameter in parameters},
        "required": list(parameters),
    }
    return {"name": name, "description": description, "input_schema": schema}


TOOLS = [
    tool("read", "Read a text file.", "path"),
    tool("write", "Write a text file.", "path", "text"),
    tool("bash", "Run a shell command.", "command"),
]


def run(name: str, arguments: dict[str, Any]) -> str:
    """Do what the model asks for. Returns the text for the model."""
    match name:
        case "read":
            return Path(arguments["path"]).read_text()
        case "write":
            written = Path(arguments["path"]).write_text(arguments["text"])
            return f"Wrote {written} characters."
        case "bash":
            command = ["bash", "-c", arguments["command"]]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            return f"{done.stdout}{done.stderr}(exit code {done.returncode})"
    raise ValueError(f"there is no tool {name!r}")


def result_of(call: ToolUseBlock) -> ToolResultBlockParam:
    """The result of a call. A fault is a result too: the model can try another way."""
    try:
        text = run(call.name, call.input)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return {"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": True}
    return {"type": "tool_result", "tool_use_id": call.id, "content": text}


def answer(session: Session, client: anthropic.Anthropic, prompt: str) -> str:
    """Ask the model, and run its tools until it calls no more of them. Returns its last text."""
    session.append_message({"role": "user", "content": prompt})
    while True:
        request = session.context().to_anthropic()
        reply = client.messages.create(model=MODEL, max_tokens=8192, tools=TOOLS, **request.params)
        session.append_message(reply)
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in reply.content if block.type == "text")
        session.append_message({"role": "user", "content": [result_of(call) for call in calls]})


def main(file: str) -> None:
    """Open the session, or make it, and answer each line."""
    client = anthropic.Anthropic()
    if Path(file).exists():
        session = Session.open(file)
    else:
        session = Session.create(file, cwd=Path.cwd())
        session.append_message({"role": "system", "content": SYSTEM})
    with session:
        for line in sys.stdin:
            if prompt := line.strip():
                print(answer(session, client, prompt), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
