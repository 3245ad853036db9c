"""Appends events to one session, as one of several processes."""

from pathlib import Path

from google.adk.events import Event
from google.genai import types

from sessiontree.adapters.google_adk import SessionTreeSessionService


async def main(root: Path, name: str, count: int) -> None:
    service = SessionTreeSessionService(root)
    session = await service.get_session(app_name="app", user_id="me", session_id="one")
    assert session is not None
    for number in range(count):
        content = types.Content(role="user", parts=[types.Part(text=f"{name} {number}")])
        await service.append_event(session, Event(author="user", content=content))
