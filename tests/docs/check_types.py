"""Check the types of the documents' Python code, with mypy as strictly as our own and with pyright.

`python -m tests.docs.check_types` makes a file of the code of each part of a page, at the lines of
the page. The packages that the code imports must be installed, as for the tests.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.docs.examples import ROOT, parts


def main() -> int:
    """Run both checkers; returns 1 if either finds an error."""
    with tempfile.TemporaryDirectory() as folder:
        for part in parts():
            if part.python:
                page = re.sub(r"\W", "_", str(part.page.relative_to(ROOT).with_suffix("")))
                Path(folder, f"{page}_{part.line}.py").write_text(part.python_in_page)
        checkers = (["mypy", folder], ["pyright", "--pythonpath", sys.executable, folder])
        return max(subprocess.run(checker, cwd=ROOT).returncode for checker in checkers)


if __name__ == "__main__":
    sys.exit(main())
