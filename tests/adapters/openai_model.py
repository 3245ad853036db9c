"""A model of the OpenAI Agents SDK that answers from a list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from agents import ModelResponse, Usage
from agents.models.interface import Model
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)


def says(text: str) -> ResponseOutputMessage:
    said = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id="msg", type="message", role="assistant", status="completed", content=[said]
    )


def calls(name: str, arguments: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        type="function_call", call_id=f"call_{name}", name=name, arguments=arguments
    )


class Scripted(Model):
    """Gives the next answer to each request; an exception is raised.

    Attributes:
        inputs: what the model was given, for each request.
    """

    def __init__(self, answers: Iterable[Any]) -> None:
        self._answers = iter(answers)
        self.inputs: list[list[Any]] = []

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **more: Any
    ) -> Any:
        self.inputs.append(list(input))
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        usage = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
        return ModelResponse(output=[answer], usage=usage, response_id=None)

    async def stream_response(
        self, system_instructions: Any, input: Any, *args: Any, **more: Any
    ) -> AsyncIterator[Any]:
        made = await self.get_response(system_instructions, input)
        response = Response(
            id="resp",
            created_at=0,
            model="scripted",
            object="response",
            output=made.output,
            parallel_tool_calls=False,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(
            type="response.completed", response=response, sequence_number=0
        )
