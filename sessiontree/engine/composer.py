"""Composer: what is appended otherwise than as one dict of fields.

Handles and attachments, messages that arrive in pieces, names and settings: each
is checked and put together here, and written by `Writer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from sessiontree.core.entry import ANNOTATIONS, Entry, check_session_name
from sessiontree.engine import refs
from sessiontree.engine.reader import PathLike, Ref
from sessiontree.engine.writer import Writer
from sessiontree.errors import EntryError
from sessiontree.recording import stream

if TYPE_CHECKING:
    from sessiontree.core.handle import Handle, Kind


class Composer(Writer):
    """The composing half of a writer."""

    def append_handle(
        self,
        handle: Handle | str,
        *,
        kind: Kind | None = None,
        role: str | None = None,
        preview: str | None = None,
        parent: Ref | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Write an entry that points to content which its owner keeps elsewhere.

        Args:
            handle: a handle, or its text form.
            kind: what it resolves to, by default what its plugin's schema says.
            role: of the message that it becomes in a context.
            preview: a few words for people to recognise it by.
            parent: what the entry hangs below, by default `leaf`.
            metadata: hints, of up to 1 KB as JSON.

        Raises:
            HandleError: the handle, its kind or the metadata is wrong, or it is of this very
                session and points to nothing in it; names the part.
            BlobError: it points to a blob that this session does not have.
        """
        from sessiontree.handles import resolve  # many sessions have no handles

        told = {"kind": kind, "role": role, "preview": preview, "metadata": metadata}
        fields = resolve.entry_fields(handle, registry=self._registry, **told)  # type: ignore[arg-type]
        resolve.check_target(self, fields["handle"])
        return self.append("handle", parent=parent, **fields)

    def attach(
        self,
        content: PathLike | BinaryIO,
        media_type: str | None = None,
        *,
        role: str = "user",
        preview: str | None = None,
        parent: Ref | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Keep a file, or what a stream gives, beside the session, and write its handle.

        It is copied block by block, so it may be of any size. A model is shown images
        (PNG, JPEG, GIF, WebP), PDF of up to 20 MiB, and text in UTF-8 of up to 256 KiB, a
        few wrong bytes of it as U+FFFD; anything else it is told the name of, and the
        warnings of the context say so.

        Args:
            content: the path of a file, or a binary stream, which is read to its end.
            media_type: by default what the content and the name of the file say.
            role, preview, parent, metadata: as for `append_handle`.

        Raises:
            StorageError: it cannot be read, or kept.
            HandleError: the media type or the metadata is wrong.
        """
        from sessiontree.operations import attach as attaching  # few sessions have attachments

        self._log.check_writable()
        self._check_file_is_there()
        handle, name = attaching.stored(self.blobs, content, media_type)
        told = {"role": role, "preview": preview or name, "metadata": metadata}
        return self.append_handle(handle, kind="binary", parent=parent, **told)  # type: ignore[arg-type]

    def stream_message(
        self,
        role: str = "assistant",
        *,
        model: str | None = None,
        provider: str | None = None,
        granularity: stream.Granularity = "message",
    ) -> stream.MessageStream:
        """Write a message while it arrives: `start`, `delta` and `stop` each block.

        Args:
            role, model, provider: of the message.
            granularity: `block` keeps each block when it is finished; `message`
                writes one entry at the end.

        Returns:
            A context manager; leaving it ends the message.

        Raises:
            UsageError: there is no such granularity.
        """
        facts = {"model": model, "provider": provider}
        return stream.MessageStream(self, role, facts, granularity)

    def label(self, ref: Ref, text: str | None) -> Entry:
        """Name an entry; None takes its name away. Returns the `label` entry.

        Raises:
            InvalidNameError: no ref could spell it, or it stands for another entry or a lane.
        """
        self._log.check_writable()
        target = self.entry(ref)
        if ref == refs.LEAF:  # not a mark behind what is meant, which no drawing shows
            while target.type in ANNOTATIONS or target.type == "branch":
                target = self._parent(target)
        if text is not None:
            self._check_name_is_free(refs.check_name(text, "label"), target.uuid)
        return self._annotate("label", {"targetUuid": target.uuid, "label": text})

    def rename(self, name: str) -> Entry:
        """Give the session a name. Returns the `session_info` entry.

        Raises:
            EntryError: it is no text, or not one line without control characters.
        """
        check_session_name(name)
        return self._annotate("session_info", {"name": name})

    def update_metadata(self, **facts: Any) -> Entry:
        """Set facts of the session's metadata; others stay as they are.

        Returns the `session_info` entry.

        Raises:
            EntryError: no fact is given, or one is no JSON.
        """
        if not facts:
            raise EntryError("update what? give key=value")
        return self._annotate("session_info", {"metadata": facts})

    def set_model(self, provider: str | None, model_id: str) -> Entry:
        """Put a model in force on this path, from here on."""
        return self.append("model_change", provider=provider, modelId=model_id)

    def set_thinking_level(self, level: str) -> Entry:
        """Put a thinking level in force on this path, from here on."""
        return self.append("thinking_level_change", thinkingLevel=level)
