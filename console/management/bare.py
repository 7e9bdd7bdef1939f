"""`python -m console.management.bare COMMAND ARGUMENT...`: a command without Django's set-up.

For commands that stay and need neither settings nor tables: they take half the memory this way.
"""

import sys
from importlib import import_module


def main() -> None:
    """Run the command that the first argument names."""
    module = import_module(f"console.management.commands.{sys.argv[1]}")
    module.Command().run_from_argv(["manage.py", *sys.argv[1:]])


if __name__ == "__main__":
    main()
