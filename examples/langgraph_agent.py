"""A graph of LangGraph that calls tools. It keeps its checkpoints in a session, and goes on there.

    pip install 'sessiontree[langgraph]' anthropic
    python examples/langgraph_agent.py FOLDER

Each line of the standard input is a prompt. The line `back` goes on before the last prompt; that
prompt and its answers stay in the session as a branch.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

from anthropic import Anthropic
from anthropic.types import MessageParam, ToolParam
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph

from sessiontree.adapters.langgraph import SessionTreeSaver


def tool(name: str, description: str, parameter: str) -> ToolParam:
    """A tool with one text as its parameter."""
    properties = {parameter: {"type": "string"}}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": [parameter]}
    return {"name": name, "description": description, "input_schema": schema}


TOOLS = [tool("read", "Read a text file.", "path"), tool("bash", "Run a command.", "command")]


def run(name: str, arguments: dict[str, Any]) -> str:
    """Do what the model asks for. Returns the text for the model."""
    try:
        if name == "read":
            return Path(arguments["path"]).read_text()
        command = ["bash", "-c", arguments["command"]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        return f"{done.stdout}{done.stderr}(exit code {done.returncode})"
    except Exception as error:
        return f"error: {error}"


def asked(message: AnyMessage) -> MessageParam:
    """A message as Anthropic's API takes it; an answer is kept as the API gave it."""
    content: Any = message.content
    if isinstance(message, ToolMessage):
        content = [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": content}]
    if isinstance(message, AIMessage):
        return {"role": "assistant", "content": content}
    return {"role": "user", "content": content}


def think(state: MessagesState) -> dict[str, Any]:
    answer = Anthropic().messages.create(
        model="claude-opus-4-6",
        max_tokens=8192,
        system="You are a coding agent. Use the tools to answer.",
        tools=TOOLS,
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
        messages=[asked(message) for message in state["messages"]],
    )
    content: list[Any] = [block.model_dump(exclude_none=True) for block in answer.content]
    called = [
        {"name": block["name"], "args": block["input"], "id": block["id"]}
        for block in content
        if block["type"] == "tool_use"
    ]
    return {"messages": [AIMessage(content, tool_calls=called)]}


def calls(state: MessagesState) -> list[ToolCall]:
    last = state["messages"][-1]
    return last.tool_calls if isinstance(last, AIMessage) else []


def act(state: MessagesState) -> dict[str, Any]:
    results = [
        ToolMessage(run(call["name"], call["args"]), tool_call_id=call["id"], name=call["name"])
        for call in calls(state)
    ]
    return {"messages": results}


def next_node(state: MessagesState) -> str:
    return "act" if calls(state) else END


def main(folder: str) -> None:
    built = StateGraph(MessagesState).add_node(think).add_node(act)
    built.add_edge(START, "think").add_conditional_edges("think", next_node, ["act", END])
    graph = built.add_edge("act", "think").compile(SessionTreeSaver(folder))
    config: RunnableConfig = {"configurable": {"thread_id": "chat"}}
    for line in sys.stdin:
        if line.strip() == "back":
            states = graph.get_state_history(config, filter={"source": "input"})
            config = next(states).parent_config or config
            continue
        state = graph.invoke({"messages": [HumanMessage(line.strip())]}, config)
        config = {"configurable": {"thread_id": "chat"}}
        print(state["messages"][-1].text)


if __name__ == "__main__":
    main(sys.argv[1])
