"""What a tool returns if text or JSON does not say it all: pictures for the model, and files for the agent.

The one idea: a `ToolResult` is taken apart where the tool returns (`agency/thread/calls.py`). Text and pictures become
the result of the call, files go to the agent's file keeper, and all of it is one commit. The value itself is never
stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from agency.errors import InvalidInput
from agency.messages import IMAGES_MOST, Image
from agency.validation import check_image, valid


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool found: `content` is text, or a value that JSON can say; the model sees the `images` beside it.

    `files`, by path, are kept by the agent's file keeper (the stock `filesystem` is one), in the place of those that it
    has under these paths. The model reads which they are; what is in them it reads with the tools of its filesystem.
    """

    content: object = ""
    images: Sequence[Image] = ()
    files: Mapping[str, str | bytes] = field(default_factory=dict)

    def checked(self) -> tuple[tuple[Image, ...], dict[str, str | bytes]]:
        """The images and files; `InvalidInput` says what a model or a file keeper could not take."""
        images = valid(_IMAGES, tuple(self.images), "images")
        if len(images) > IMAGES_MOST:
            raise InvalidInput(f"a result has at most {IMAGES_MOST} images, not {len(images)}")
        for image in images:
            check_image(image)
        return images, valid(_FILES, dict(self.files), "files")


_IMAGES: TypeAdapter[tuple[Image, ...]] = TypeAdapter(tuple[Image, ...])
_FILES: TypeAdapter[dict[str, str | bytes]] = TypeAdapter(dict[str, str | bytes])
