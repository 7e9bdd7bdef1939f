"""`python -m console.ground HOME PORT DEMO_PORT`: the supervisor behind `manage.py up`, without Django in memory.

DEMO_PORT 0 leaves the demo out.
"""

import json
import sys
from pathlib import Path

from console.ground.account import NoAccountError
from console.ground.home import Home
from console.ground.place import UnsafeFolderError
from console.ground.postgres import PostgresError
from console.ground.product import CannotStartError, Product
from console.ground.valkey import ValkeyError


def main() -> None:
    """Run the product until a signal; exit with the reason when it cannot start."""
    home, port, demo_port = sys.argv[1:]
    product = Product(home=Home(Path(home)), port=int(port), demo_port=int(demo_port) or None, tell=tell)
    try:
        product.run(greet=lambda: greet(product))
    except (CannotStartError, NoAccountError, UnsafeFolderError, PostgresError, ValkeyError) as error:
        if product.is_stopping:
            # Ctrl-C reaches what is being started as well, and its complaint is no reason.
            sys.exit("longcall: stopped before it was ready; run it again")
        sys.exit(f"longcall: {error}")
    tell("stopped")


def tell(text: str) -> None:
    """Print a line for the person at the shell, at once."""
    print(text, flush=True)


def greet(product: Product) -> None:
    """Say where the site is, who may sign in, and what to do first."""
    tell(f"\nLongcall is running at {product.address}/   (Ctrl-C stops it; logs in {product.home.logs})\n")
    if product.demo_port is None:
        tell("First: make an admin with `python3 manage.py make_admin NAME` in another shell.\n")
        return
    if product.home.people.exists():
        tell("Sign in as")
        for person in json.loads(product.home.people.read_text()):
            tell(f"  {person['username']:<12} {person['password']:<20} {', '.join(person['roles'])}")
    tell("\nFirst: sign in, press a button under “Try it”, and watch the operation live.\n")


if __name__ == "__main__":
    main()
