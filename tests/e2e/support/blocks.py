"""Commands on documentation pages."""

import re
from pathlib import Path


def blocks(path):
    """Returns the command blocks below a comment `<!-- run: NAME -->`, by name."""
    found = re.findall(r"<!-- run: ([a-z-]+) -->\n```bash\n(.*?)```", Path(path).read_text(), re.DOTALL)
    return dict(found)
