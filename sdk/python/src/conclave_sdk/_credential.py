"""The API key, and what keeps it out of messages."""

from .errors import ConclaveError

# A shorter text is no key of a server, and occurs in messages by chance.
_SHORTEST_HIDDEN = 8


class Credential:
    """An API key without the white space around it, as after reading it from a file."""

    def __init__(self, api_key: str) -> None:
        key = api_key.strip()
        # Whatever else a header cannot carry, its library would print.
        if not key or not all("!" <= character <= "~" for character in key):
            raise ConclaveError("invalid_key", "the API key must be visible ASCII characters without spaces")
        self._key = key

    @property
    def header(self) -> str:
        return f"Bearer {self._key}"

    def hide(self, text: str) -> str:
        """Returns a text without the key, which something in between may have sent back."""
        return text.replace(self._key, "***") if len(self._key) >= _SHORTEST_HIDDEN else text

    def printable(self, cause: Exception) -> Exception | None:
        """Returns the cause of an error, unless it has the key: both are printed together."""
        return cause if self.hide(str(cause)) == str(cause) else None


def base_url(url: str) -> str:
    """Returns the URL of a server without the white space around it.

    Raises:
        ConclaveError: if it is none. The message does not have it: it may be a key, given in the wrong place.
    """
    url = url.strip()
    if not url.lower().startswith(("http://", "https://")) or not all("!" <= character <= "~" for character in url):
        raise ConclaveError("invalid_url", "the URL of the server must begin with http:// or https://")
    return url
