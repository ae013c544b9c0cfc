"""The commands of a page."""

import re
from pathlib import Path


def blocks(path):
    """The blocks of commands that have `<!-- run: NAME -->` above them, by their names."""
    found = re.findall(r"<!-- run: ([a-z-]+) -->\n```bash\n(.*?)```", Path(path).read_text(), re.DOTALL)
    return dict(found)
