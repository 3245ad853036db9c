"""Plugins as the tests of handles want them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sessiontree.core.handle import Handle, Kind
from sessiontree.handles.registry import HandleSchema, MetaField, ResolverScope

Resolve = Callable[[Handle, ResolverScope], Any]


def said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


class Plugin:
    """Resolves handles of one plugin, and keeps what it was asked for."""

    def __init__(
        self,
        name: str,
        versions: str = "*",
        kind: Kind = "message",
        resolve: Resolve = lambda handle, scope: said(str(handle)),
    ) -> None:
        meta = [MetaField("key", required=False)]
        self.schemas = [HandleSchema(name, m, versions, meta, kind) for m in ("a", "b")]
        self._resolve = resolve
        self.asked: list[Handle] = []

    def resolve(self, handle: Handle, scope: ResolverScope) -> Any:
        self.asked.append(handle)
        return self._resolve(handle, scope)


class Batching(Plugin):
    """Resolves several at once."""

    def __init__(self, name: str, resolve_many: Callable[..., Any], **plugin: Any) -> None:
        super().__init__(name, **plugin)
        self._resolve_many = resolve_many
        self.batches: list[list[Handle]] = []

    def resolve_many(self, handles: Sequence[Handle], scope: ResolverScope) -> Any:
        self.batches.append(list(handles))
        return self._resolve_many(handles, scope)


def handle(key: object, plugin: str = "p", method: str = "a", version: str = "1.0.0") -> Handle:
    return Handle(plugin, version, method, (str(key),))


def install_plugins(folder: Path, *points: str) -> None:
    """Put a package with these entry points into a folder, such as `name = module:attribute`."""
    info = folder / "some_plugins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-plugins\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(["[sessiontree.handles]", *points]))
