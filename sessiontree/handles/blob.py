"""Blobs: content in the sidecar of the session that the handle stands in.

The bytes are compared with the hash in the handle whenever they are read.
"""

from __future__ import annotations

from typing import Final

from sessiontree.context.resolved import ResolvedHandle
from sessiontree.core.handle import MEDIA_TYPE, Handle
from sessiontree.handles.registry import Scope
from sessiontree.handles.schema import HandleSchema, MetaField

SCHEMA: Final = HandleSchema(
    plugin="blob",
    method="sha256",
    versions="1.x",
    meta=[
        MetaField("sha256", pattern="[0-9a-f]{64}", form="64 lower-case hex digits"),
        MetaField("size", pattern="0|[1-9][0-9]{0,17}", form="a number of bytes"),
        MetaField("media type", pattern=MEDIA_TYPE, form="a media type like image/png"),
    ],
    kind="binary",
    resolves_to="the bytes of that hash and size in the session's sidecar, with the media type",
)


class BlobResolver:
    """Resolves `blob@1.0.0::sha256:<hex>:<size>:<media type>`."""

    schemas = (SCHEMA,)

    def resolve(self, handle: Handle, scope: Scope) -> ResolvedHandle:
        """The bytes.

        Raises:
            BlobError: they are missing, or not those of the handle.
        """
        sha256, size, media_type = handle.meta
        content = scope.session.blobs.read(sha256, int(size))
        return ResolvedHandle(handle, "binary", content, media_type)
