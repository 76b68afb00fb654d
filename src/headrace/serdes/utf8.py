"""UTF-8 as Java decodes it: malformed input becomes U+FFFD instead of an error."""

from __future__ import annotations

import codecs
import re

REPLACE_AS_JAVA = "headrace.replace_as_java"
"""The `errors` argument that decodes malformed bytes to the same text as Java's `new String(data, UTF_8)`."""

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    # Java takes an encoded surrogate, even part of one, as a single mistake; Python counts its bytes.
    surrogate = _SURROGATE.match(error.object, error.start)
    return "\ufffd", surrogate.end() if surrogate else error.end


codecs.register_error(REPLACE_AS_JAVA, _replace_as_java)
