"""A coding agent on three APIs. Stop it anywhere: it continues where it was.

    pip install 'sessiontree[prices]' anthropic openai
    python examples/coding_agent.py [FILE] [--api anthropic | responses | chat]

Without a file, it continues the latest session of this directory. Each line is a prompt, a shell
command (`!ls`), a command, or empty, which continues what broke off. Ctrl-C interrupts the model
and its tools; Ctrl-D ends the agent.

    /image FILE [PROMPT]                   ask about an image
    /tree, /branches, /cost                show the session
    /branch-here REF, /switch REF          continue from an entry; go to the end of a branch
    /rewind [REF], /undo                   go back to before a prompt; take back the last step
    /push [NOTE], /pop                     mark a place; go back there with a summary
    /compact [INSTRUCTIONS]                put a summary in place of the older context
    /fork FILE, /export-branch REF FILE    copy the path to here; copy an entry and all below it
    /rename NAME, /resume [REF]            name this session; list sessions, or go to another
"""

import argparse
import asyncio
import base64
import mimetypes
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI, omit
from openai.types.shared_params import FunctionDefinition
from pydantic import BaseModel

from sessiontree import AsyncSession, AsyncStore, Context, Summarized, ToolCall

SYSTEM = "You are a coding agent. Use the tools to answer."
WINDOW = int(os.environ.get("CONTEXT_WINDOW", "200000"))  # in tokens
Block = dict[str, Any]
Tool = tuple[str, str, dict[str, object]]  # name, description, schema of the parameters
Events = AsyncGenerator[tuple[BaseModel, str], None]  # of an answer, each with the text to show


def tool(name: str, description: str, *parameters: str) -> Tool:
    """A tool whose parameters are all texts."""
    properties = {each: {"type": "string"} for each in parameters}
    return name, description, {"type": "object", "properties": properties}


TOOLS = [
    tool("bash", "Run a shell command.", "command"),
    tool("read", "Read a text file or an image.", "path"),
    tool("write", "Write a text file.", "path", "text"),
]
TASK = tool("task", "Give a task to a subagent, which sees nothing but your prompt.", "prompt")
anthropic, openai = cache(AsyncAnthropic), cache(AsyncOpenAI)


async def claude(context: Context, tools: Sequence[Tool]) -> Events:
    """Stream an answer of Anthropic's Messages API."""
    async for event in await anthropic().messages.create(
        model="claude-opus-4-6",
        max_tokens=16_000,
        thinking={"type": "adaptive"},
        tools=[{"name": n, "description": d, "input_schema": s} for n, d, s in tools],
        stream=True,
        **context.to_anthropic(cache="5m").params,
    ):
        delta = event.delta if event.type == "content_block_delta" else None
        yield event, delta.text if delta and delta.type == "text_delta" else ""


async def responses(context: Context, tools: Sequence[Tool]) -> Events:
    """Stream an answer of OpenAI's Responses API. OpenAI stores nothing: reasoning is sealed."""
    events = await openai().responses.create(
        model="gpt-5",
        store=False,
        include=["reasoning.encrypted_content"],
        tools=[
            {"type": "function", "name": n, "description": d, "parameters": s, "strict": False}
            for n, d, s in tools
        ],
        stream=True,
        **context.to_openai().params,
    )
    async for event in events:
        yield event, event.delta if event.type == "response.output_text.delta" else ""


async def chat(context: Context, tools: Sequence[Tool]) -> Events:
    """Stream an answer of Chat Completions, which vLLM, Ollama and OpenRouter have too."""
    functions = [FunctionDefinition(name=n, description=d, parameters=s) for n, d, s in tools]
    events = await openai().chat.completions.create(
        model="gpt-5",
        tools=[{"type": "function", "function": each} for each in functions] or omit,
        stream=True,
        stream_options={"include_usage": True},
        **context.to_openai("chat").params,
    )
    async for event in events:
        yield event, (event.choices[0].delta.content or "") if event.choices else ""


async def bash(command: str) -> str:
    """Run a command. If it is interrupted, its children end too."""
    shell = await asyncio.create_subprocess_shell(
        command, stdout=PIPE, stderr=STDOUT, start_new_session=True
    )
    try:
        output, _ = await shell.communicate()
        return f"{output.decode(errors='replace')}(exit code {shell.returncode})"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)


def text_block(text: str) -> Block:
    return {"type": "text", "text": text or "(empty)"}


def file_block(path: str) -> Block:
    kind = mimetypes.guess_type(path)[0] or ""
    if not kind.startswith("image/"):
        return text_block(Path(path).read_text())
    data = base64.b64encode(Path(path).read_bytes()).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


@dataclass
class Agent:
    """An agent on one lane of a session. A subagent is an agent on a lane of its own."""

    session: AsyncSession
    model: Callable[[Context, Sequence[Tool]], Events]
    tools: Sequence[Tool] = ()
    show: Callable[[str], None] = lambda text: None

    async def prompt(self, *content: Block) -> str:
        """Answer a prompt. Returns the last text of the model."""
        await self.session.append_message({"role": "user", "content": content})
        return await self.work()

    async def work(self) -> str:
        """Ask the model, and run its tools in parallel until it calls no more."""
        while True:
            await self.session.auto_compact(WINDOW, self.summarize)
            text = ""
            answer = self.model(await self.session.context(), self.tools)
            async with self.session.stream_message(granularity="block") as reply, aclosing(answer):
                async for event, delta in answer:
                    await reply.feed(event)  # each finished block is on disk
                    text += delta
                    self.show(delta)
            if not reply.calls:  # nor does an answer that broke off have any
                return text
            await asyncio.gather(*map(self.answer, reply.calls))

    async def answer(self, call: ToolCall) -> None:
        """Run a call and store its result. A fault is a result too: the model can try again."""
        result: Block = {"type": "tool_result", "tool_use_id": call.id}
        try:
            result["content"] = [await self.run(call.id, call.name, **call.arguments)]
        except Exception as error:
            result |= {"content": [text_block(repr(error))], "is_error": True}
        await self.session.append_message({"role": "user", "content": [result]})

    async def run(self, id: str, name: str, **given: str) -> Block:
        match name:
            case "bash":
                return text_block(await bash(given["command"]))
            case "read":
                return file_block(given["path"])
            case "write":
                return text_block(f"Wrote {Path(given['path']).write_text(given['text'])} bytes.")
            case "task":
                async with self.session.subagent(id, name="task") as lane:
                    task = text_block(given["prompt"])
                    return text_block(await Agent(lane, self.model, TOOLS).prompt(task))
        raise ValueError(f"there is no tool {name!r}")

    async def summarize(self, entries: Summarized, instructions: str = "") -> str:
        """Let the model summarize entries. Their text is the request, with the instructions."""
        async with AsyncSession.create() as memory:
            return await Agent(memory, self.model).prompt(text_block(entries.text))

    async def finish(self) -> None:
        """Continue what broke off, for example because the process was killed."""
        if await self.session.unfinished() == "partial":
            await self.session.retract()
        if await self.session.unfinished():
            await self.work()

    async def obey(self, line: str) -> str | None:
        """Obey a command, or answer a prompt. Returns what to print."""
        session = self.session
        command, _, rest = line.partition(" ")
        match command:
            case "":
                await self.finish()
            case "/image":
                file, _, prompt = rest.partition(" ")
                await self.prompt(file_block(file), text_block(prompt))
            case "/tree":
                return "\n".join((await session.outline()).render())
            case "/branches":
                return "\n".join(
                    f"{b.leaf[:8]} {b.name or b.preview}" for b in await session.branches()
                )
            case "/cost":
                return f"${(await session.stats()).cost.dollars:.4f}"
            case "/branch-here":
                await session.branch(rest)
            case "/switch":
                await session.switch(rest)
            case "/rewind":
                return await session.rewind(rest or None)
            case "/undo":
                return f"Took back: {(await session.undo()).type}"
            case "/push":
                await session.push(rest or None)
            case "/pop":
                return str((await session.pop(summary=self.summarize))["summary"])
            case "/compact":
                await session.compact(self.summarize, instructions=rest or None)
            case "/fork":
                return await session.fork(rest)
            case "/export-branch":
                ref, _, file = rest.partition(" ")
                return await session.export_branch(ref, file)
            case "/rename":
                await session.rename(rest)
            case "/resume" if rest:
                self.session = await AsyncStore().open(rest)
                await session.close()
            case "/resume":
                found = await AsyncStore().list(cwd=os.getcwd())
                return "\n".join(f"{row.id[:8]} {row.name or row.first_message}" for row in found)
            case _ if line.startswith("!"):
                output = await bash(line[1:])
                note = {"role": "bashExecution", "command": line[1:], "output": output}
                await session.append_message(note)
                return output
            case _ if line.startswith("/"):
                return f"There is no command {command}."
            case _:
                await self.prompt(text_block(line))
        return None


async def attempt(work: Coroutine[Any, Any, str | None]) -> None:
    """Do one thing until it ends, fails, or is interrupted by Ctrl-C."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
    try:
        print(await task or "", flush=True)
    except asyncio.CancelledError:
        print("Interrupted.", flush=True)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?")
    parser.add_argument("--api", default="anthropic", choices=["anthropic", "responses", "chat"])
    options = parser.parse_args()
    models = {"anthropic": claude, "responses": responses, "chat": chat}
    file, store = options.file, AsyncStore()
    session = await (AsyncSession.open_or_create(file) if file else store.continue_latest())
    if (await session.context()).system is None:
        await session.append_message({"role": "system", "content": SYSTEM})
    agent = Agent(session, models[options.api], [*TOOLS, TASK], partial(print, end="", flush=True))
    await attempt(agent.finish())
    while line := await asyncio.to_thread(sys.stdin.readline):
        await attempt(agent.obey(line.strip()))
    await agent.session.close()


if __name__ == "__main__":
    asyncio.run(main())
