#!/usr/bin/env python3
"""Build the project's own environment when it is missing or old, then be Django's `manage.py`.

`python3 manage.py up` starts everything, `python3 manage.py selftest` runs every check.
"""

import os
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - the reader of this message has the old Python
    sys.exit("Longcall needs Python 3.11 or newer; this is " + sys.version.split()[0])

from console.ground import environment


def main() -> None:
    """Hand the command line to Django, inside the project's environment."""
    environment.enter(needs_dev=sys.argv[1:2] == ["selftest"])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
