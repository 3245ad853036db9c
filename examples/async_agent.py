"""An asynchronous agent on Anthropic's API: streams, parallel tools, subagents, and commands.

    pip install sessiontree anthropic
    python examples/async_agent.py chat.jsonl

Each line of the standard input is a prompt or a command:

    /compact [INSTRUCTIONS]   put a summary of the model in place of the older context
    /rewind                   go back to before the last prompt
    /branch-here REF          go on from another entry; REF is a uuid, a label, @~3, …
    /push [NOTE], /pop        mark a place; go back there with a summary
"""

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

from anthropic import AnthropicError, AsyncAnthropic
from anthropic.types import ToolParam

from sessiontree import AsyncSession, SessionTreeError

MODEL = "claude-opus-4-6"
SYSTEM = "You are a coding agent. Use the tools to answer."


def tool(name: str, description: str, parameter: str) -> ToolParam:
    schema: dict[str, object] = {"type": "object", "properties": {parameter: {"type": "string"}}}
    return {"name": name, "description": description, "input_schema": schema}


BASH = tool("bash", "Run a shell command.", "command")
TASK = tool("task", "Give a task to a subagent, which sees nothing but your prompt.", "prompt")


class Agent:
    """An agent on one lane of a session. A subagent is an agent on a lane of its own."""

    def __init__(self, session: AsyncSession, client: AsyncAnthropic) -> None:
        self.session = session
        self.client = client
        self.tools = [BASH, TASK] if session.lane_name == "main" else [BASH]

    async def answer(self, prompt: str) -> str:
        """Ask the model, and run its tools until it calls no more. Returns its last text."""
        await self.session.append_message({"role": "user", "content": prompt})
        while True:
            request = (await self.session.context()).to_anthropic()
            stream = await self.client.messages.create(
                model=MODEL, max_tokens=8192, tools=self.tools, stream=True, **request.params
            )
            async with self.session.stream_message(granularity="block") as reply:
                async for event in stream:
                    await reply.feed(event)  # each finished block is on disk
            calls = [block for block in reply.blocks.values() if block["type"] == "tool_use"]
            if not calls:
                return "".join(block.get("text", "") for block in reply.blocks.values())
            results = await asyncio.gather(*map(self.result_of, calls))
            await self.session.append_message({"role": "user", "content": results})

    async def result_of(self, call: dict[str, Any]) -> dict[str, Any]:
        """The result of a call. A fault is a result too: the model can try another way."""
        try:
            text = await self.run(call["name"], call["id"], **call["input"])
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        return {"type": "tool_result", "tool_use_id": call["id"], "content": text}

    async def run(self, name: str, call_id: str, **arguments: str) -> str:
        """Do what the model asks for. Returns the text for the model."""
        if name == "task":
            async with self.session.lane(f"task-{call_id}", empty=True) as lane:
                return await Agent(lane, self.client).answer(arguments["prompt"])
        command = arguments["command"]
        shell = await asyncio.create_subprocess_shell(command, stdout=PIPE, stderr=PIPE)
        return "".join(part.decode(errors="replace") for part in await shell.communicate())

    async def compact(self, instructions: str) -> str:
        """Let the model summarize the older part of the context."""
        plan = await self.session.compaction_plan(instructions=instructions or None)
        reply = await self.client.messages.create(
            model=MODEL, max_tokens=8192, messages=[{"role": "user", "content": plan.text}]
        )
        text = "".join(block.text for block in reply.content if block.type == "text")
        await self.session.compact(text, plan)
        return f"Compacted to about {(await self.session.context()).tokens} tokens."

    async def obey(self, line: str) -> str:
        """Obey a command, or answer a prompt."""
        command, _, rest = line.partition(" ")
        match command:
            case "/compact":
                return await self.compact(rest)
            case "/rewind":
                return f"Rewound. Your prompt was: {await self.session.rewind()}"
            case "/branch-here":
                await self.session.branch(rest)
                return "The next prompt goes there."
            case "/push":
                await self.session.push(rest or None)
                return "/pop comes back here."
            case "/pop":
                return f"Back, with this summary: {(await self.session.pop())['summary']}"
        return await self.answer(line)


async def main(file: str) -> None:
    """Open the session, or make it, and obey each line."""
    if not Path(file).exists():
        async with AsyncSession.create(file, cwd=Path.cwd()) as session:
            await session.append_message({"role": "system", "content": SYSTEM})
    async with AsyncSession.open(file) as session, AsyncAnthropic() as client:
        agent = Agent(session, client)
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                print(await agent.obey(line.strip()), flush=True)
            except (SessionTreeError, AnthropicError) as error:
                print(error, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
