"""Checking a value that comes from outside, against its type or as a picture; what is wrong is an `InvalidInput`."""

from __future__ import annotations

import base64
import binascii
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from agency.errors import InvalidInput, TooLarge
from agency.messages import IMAGE_BYTES, Image
from agency.wire import explain

Validated = TypeVar("Validated")


def valid(adapter: TypeAdapter[Validated], given: object, what: str) -> Validated:
    """The value as its type has it. `what` names it in the error: "wrong limits: …"."""
    try:
        return adapter.validate_python(given)
    except ValidationError as error:
        raise InvalidInput(f"wrong {what}: {explain(error)}") from error


def check_image(image: Image) -> None:
    """Decode the image's bytes: providers refuse what is not base64, is empty or is too large."""
    try:
        size = len(base64.b64decode(image.data or "", validate=True))
    except binascii.Error:
        raise InvalidInput("an image's `data` is base64, and this is not") from None
    if image.url is None and not size:
        raise InvalidInput("an image is empty")
    if size > IMAGE_BYTES:
        raise TooLarge(f"an image has {size} bytes; {IMAGE_BYTES} are accepted")
