"""Makes the pictures of the README: `python docs/pictures.py [FOLDER]`. It needs Chromium."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from sessiontree import Session  # noqa: E402
from tests.page.browser import View, chromium  # noqa: E402
from tests.tui.driving import Driven, drive  # noqa: E402

SIZE: Final = 1000, 560
_COLUMNS: Final = 92, 23
_FONTS: Final = re.compile(r"@font-face \{.*?\}", re.DOTALL)  # they are elsewhere
_BEFORE: Final = "        except ConnectionError:\n            time.sleep(1)\n"
_AFTER: Final = (
    "        except ConnectionError:\n            time.sleep(wait)\n            wait *= 2\n"
)


def example(file: Path) -> Session:
    """A session with a branch that was left, an edit and a run of tests."""
    session = Session.create(file, cwd="/project", name="Retries that back off", durability="os")
    first = _turn(session, "Why do our retries hammer the API?", "They never wait longer.")
    _turn(session, "Add jitter first", "Jitter alone does not slow down the retries.")
    session.branch(first)
    edit = {"path": "/project/retry.py", "oldText": _BEFORE, "newText": _AFTER}
    _turn(
        session,
        "Back off between retries",
        "The wait doubles now.",
        edit=edit,
        bash={"command": "pytest -q"},
    )
    return session


def _turn(session: Session, prompt: str, answer: str, **calls: dict[str, str]) -> str:
    session.append_message({"role": "user", "content": prompt})
    for name, arguments in calls.items():
        call = {"type": "toolCall", "id": f"call-{name}", "name": name, "arguments": arguments}
        session.append_message({"role": "assistant", "content": [call]})
        text = "12 passed" if name == "bash" else "edited"
        result = {"role": "toolResult", "toolCallId": call["id"], "content": text}
        session.append_message(result)
    return session.append_message({"role": "assistant", "content": answer}).uuid


def make(folder: Path) -> list[Path]:
    """Make the pictures in a folder; gives their paths."""
    with tempfile.TemporaryDirectory() as place, example(Path(place) / "s.jsonl") as session:
        page = Path(place) / "page.html"
        page.write_text("".join(session.to_html()), "utf-8")
        made = [folder / "page-light.png", folder / "browse.png"]
        terminal = _terminal(Path(str(session.file)))
        with chromium() as browser:
            view = View(browser, viewport={"width": SIZE[0], "height": SIZE[1]}).open(page)
            view.press("G", "k", "o")
            view.page.wait_for_timeout(500)
            view.page.screenshot(path=made[0])
            drawing = View(browser, viewport={"width": SIZE[0], "height": SIZE[1]})
            drawing.page.set_content(terminal)
            drawing.page.screenshot(path=made[1])
    return made


def _terminal(file: Path) -> str:
    """The browser in the terminal with the outline of a session, as a page with a drawing."""
    drawn: list[str] = []

    async def draw(driven: Driven) -> None:
        await driven.press("G", "enter")
        drawn.append(driven.app.export_screenshot(title="sessiontree browse"))

    drive(draw, file=file, size=_COLUMNS)
    return f"<style>body {{ margin: 0 }} svg {{ width: 100% }}</style>{_FONTS.sub('', drawn[0])}"


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
