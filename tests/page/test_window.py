"""The screen of a page is full of rows, whatever is folded, unfolded and jumped to."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import Session
from tests.page.browser import View, chromium, needs_chromium
from tests.support.soak import in_soak
from tests.support.transcripts import Line, assistant, line, result, user, with_subagent, written

pytestmark = needs_chromium

_GAP: Final = """async () => {
  const look = () => {
    const at = (id) => document.getElementById(id).getBoundingClientRect();
    const main = at('main'), above = at('above'), below = at('below'), list = at('list');
    if (above.height > 0 && above.bottom > main.top + 1) return 'above the first row';
    if (below.height > 0 && below.top < main.bottom - 1) return 'below the last row';
    if (list.bottom < main.top + 1) return 'everything';
    const rows = [...document.querySelectorAll('#list > .row')];
    const isEmpty = (row) => row.getBoundingClientRect().height < 5 || !row.textContent.trim();
    return rows.some(isEmpty) ? 'an empty row' : '';
  };
  const stays = 5;  // frames in a row without a gap
  let seen = '';
  for (let frame = 0, full = 0; frame < 300 && full < stays; frame++) {
    await new Promise(requestAnimationFrame);
    seen = look();
    full = seen ? 0 : full + 1;
  }
  return seen;
}"""

_KEYS: Final = (*"jkcCbBxommdntgG@oooo", "Escape")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def call(uuid: str, above: str, name: str, id: str, **given: Any) -> Line:
    made = assistant(uuid, above)
    made["message"]["content"] += [{"type": "tool_use", "id": id, "name": name, "input": given}]
    return made


def output(uuid: str, above: str, id: str, lines: int) -> Line:
    block = {"type": "tool_result", "tool_use_id": id, "content": f"out of {id}\n" * lines}
    return user(uuid, above, [block])


def agent() -> Iterator[Line]:
    """The transcript of a subagent, which makes a tall list when it is unfolded."""
    yield user("sa", None, "the task", isSidechain=True)
    above = "sa"
    for n in range(40):
        yield {**call(f"sc{n}", above, "Bash", f"st{n}", command="ls"), "isSidechain": True}
        yield {**output(f"sr{n}", f"sc{n}", f"st{n}", 3 * n), "isSidechain": True}
        above = f"sr{n}"


def conversation(turns: int) -> Iterator[Line]:
    """Turns behind the call of a subagent; some fork, one compacts."""
    yield user("a", None, "the first prompt")
    yield assistant("b", "a", "m", ["t"])
    yield result("r", "b", "t")
    above = "r"
    for n in range(turns):
        yield user(f"u{n}", above, f"prompt {n}")
        above = f"u{n}"
        for k in range(4):
            edit = {"file_path": f"/project/{k}.py", "old_string": "a\n" * n, "new_string": "b\n"}
            given = {"command": "ls"} if k % 2 else edit
            yield call(f"c{n}-{k}", above, "Bash" if k % 2 else "Edit", f"t{n}-{k}", **given)
            yield output(f"r{n}-{k}", f"c{n}-{k}", f"t{n}-{k}", 1 + 17 * k)
            above = f"r{n}-{k}"
        if n % 4 == 1:
            yield user(f"side{n}", above, f"another way {n}")
            yield assistant(f"aside{n}", f"side{n}")
        if n == turns // 2:
            yield line(f"k{n}", above, "system", subtype="compact_boundary", content="compacted")
            above = f"k{n}"
        answer = "the closing answer" if n == turns - 1 else f"answer {n}\n\n" * (1 + n % 5)
        made = assistant(f"a{n}", above)
        made["message"]["content"][0]["text"] = answer
        yield made
        above = f"a{n}"


def page_of(folder: Path, turns: int) -> Path:
    file = with_subagent(folder / "s.jsonl", *agent())
    written(file, conversation(turns))
    with Session.open(file, readonly=True) as session:
        made = folder / "page.html"
        made.write_text("".join(session.to_html()), "utf-8")
    return made


def gap(view: View) -> str:
    """What is missing on the screen once nothing changes there any more; empty if nothing is."""
    return str(view.page.evaluate(_GAP))


def test_folding_at_the_end_leaves_no_blank(browser: Any, tmp_path: Path) -> None:
    view = View(browser, viewport={"width": 1440, "height": 900})
    view.open(page_of(tmp_path, 2))
    for key in "joGo":
        view.press(key)
        assert gap(view) == "", key
    assert view.sees("the closing answer")
    assert view.errors == []


def test_the_place_inside_a_tall_row_is_kept_when_the_list_changes(
    browser: Any, tmp_path: Path
) -> None:
    view = View(browser, viewport={"width": 1440, "height": 400})
    view.open(page_of(tmp_path, 12))
    view.press(*"jjjjo")
    assert gap(view) == ""
    tall = "[...document.querySelectorAll('.row')].find(one => one.offsetHeight > 300)"
    row = view.page.evaluate(f"({tall}).dataset.row")
    top = f"""document.querySelector('.row[data-row="{row}"]').getBoundingClientRect().top"""
    view.page.evaluate(f"document.getElementById('main').scrollTop += {top} + 150")
    assert gap(view) == ""
    before = view.page.evaluate(top)
    assert before < -50
    view.press("t", "t")
    assert view.page.get_attribute("#presets button[aria-pressed=true]", "data-preset") == "all"
    assert gap(view) == ""
    assert abs(view.page.evaluate(top) - before) < 2


@pytest.mark.slow
@in_soak("seeds", 1, 12)
def test_any_keys_keep_the_screen_full(browser: Any, tmp_path: Path, seeds: int) -> None:
    for seed in range(seeds):
        check_any_keys(browser, tmp_path, random.Random(seed))


def check_any_keys(browser: Any, tmp_path: Path, chance: random.Random) -> None:
    size = {"width": chance.choice((390, 1440)), "height": chance.choice((500, 900, 1600))}
    view = View(browser, viewport=size)
    view.open(page_of(tmp_path, chance.choice((2, 12, 40))))
    done: list[str] = []
    for _ in range(60):
        act = chance.choice((*_KEYS, "wheel", "click", "tree"))
        done.append(act)
        if act == "wheel":
            view.page.mouse.move(size["width"] - 100, size["height"] // 2)
            view.page.mouse.wheel(0, chance.choice((-9000, -400, 300, 9000)))
        elif act in ("click", "tree"):
            found = "#list summary" if act == "click" else "#tree a"
            number = chance.random()
            view.page.evaluate(
                "([found, n]) => { const all = document.querySelectorAll(found);"
                " if (all.length) all[Math.floor(n * all.length)].click(); }",
                [found, number],
            )
        else:
            view.page.keyboard.press(act)
        if chance.random() < 0.7:  # or else the next one comes at once
            assert gap(view) == "", done
    view.press("Escape", "@", "G")
    assert gap(view) == "", done
    assert view.sees("the closing answer")
    assert view.errors == []
