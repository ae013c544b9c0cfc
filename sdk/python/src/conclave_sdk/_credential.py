"""The API key, masked in messages."""

from .errors import ConclaveError

# Shorter texts are not server keys, and occur in messages by chance.
_SHORTEST_HIDDEN = 8


class Credential:
    """An API key, trimmed, since keys read from a file end with a line break."""

    def __init__(self, api_key: str) -> None:
        key = api_key.strip()
        # The HTTP library's error would print a key that a header cannot carry.
        if not key or not all("!" <= character <= "~" for character in key):
            raise ConclaveError("invalid_key", "the API key must be visible ASCII characters without spaces")
        self._key = key

    @property
    def header(self) -> str:
        return f"Bearer {self._key}"

    def hide(self, text: str) -> str:
        """Masks the key in a text: a proxy may echo it."""
        return text.replace(self._key, "***") if len(self._key) >= _SHORTEST_HIDDEN else text

    def printable(self, cause: Exception) -> Exception | None:
        """Returns an error's cause, unless it contains the key: a cause is printed with its error."""
        return cause if self.hide(str(cause)) == str(cause) else None


def base_url(url: str) -> str:
    """Returns a server's URL without surrounding white space.

    Raises:
        ConclaveError: if it is not a URL. The message omits the text, which may be a key in the wrong place.
    """
    url = url.strip()
    if not url.lower().startswith(("http://", "https://")) or not all("!" <= character <= "~" for character in url):
        raise ConclaveError("invalid_url", "the URL of the server must begin with http:// or https://")
    return url
