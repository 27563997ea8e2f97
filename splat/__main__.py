"""`python -m splat`."""

import sys

if __name__ == "__main__":
    try:
        from .cli import main

        sys.exit(main())
    except KeyboardInterrupt:  # before main could handle it
        sys.exit(130)
