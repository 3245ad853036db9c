"""An agent on OpenAI's Responses API. It keeps its conversation in a file, and goes on from there.

    pip install sessiontree openai
    python examples/openai_agent.py chat.jsonl

Each line of the standard input is a prompt. The session has all that the API needs, so OpenAI
stores nothing (`store=False`). Reasoning comes back encrypted, and is sent with the next request.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from openai import OpenAI
from openai.types.responses import FunctionToolParam, Response, ResponseFunctionToolCall

from sessiontree import Session

MODEL = "gpt-5"
SYSTEM = "You are a coding agent. Use the tools to answer."


def tool(name: str, description: str, *parameters: str) -> FunctionToolParam:
    """A tool whose parameters are all texts."""
    schema: dict[str, object] = {
        "type": "object",
        "properties": {parameter: {"type": "string"} for parameter in parameters},
        "required": list(parameters),
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": schema,
        "strict": True,
    }


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


def result_of(call: ResponseFunctionToolCall) -> dict[str, str]:
    """The result of a call. A fault is a result too: the model can try another way."""
    try:
        text = run(call.name, json.loads(call.arguments))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    return {"type": "function_call_output", "call_id": call.call_id, "output": text}


def answer(session: Session, client: OpenAI, prompt: str) -> str:
    """Ask the model, and run its tools until it calls no more of them. Returns its last text."""
    session.append_message({"role": "user", "content": prompt})
    while True:
        request = session.context().to_openai()
        reply: Response = client.responses.create(
            model=MODEL,
            tools=TOOLS,
            store=False,
            include=["reasoning.encrypted_content"],
            **request.params,
        )
        with session.batch():  # an answer has several items: one write and one sync
            for item in reply.output:
                session.append_message(item)
            if reply.usage:
                session.append_usage(reply.usage, provider="openai", model=reply.model)
        calls = [item for item in reply.output if item.type == "function_call"]
        if not calls:
            return reply.output_text
        for call in calls:
            session.append_message(result_of(call))  # kept, even if the next call never ends


def main(file: str) -> None:
    """Open the session, or make it, and answer each line."""
    client = OpenAI()
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
