"""A compiler that was changed from inside, for what no file or program outside it can bring about.

It is a program of its own, so a test cannot patch it; a test's script can start another program in its place:

    from tiny._kernelwheel import compiler_process
    compiler_process.program = lambda: Path("…/patched_compiler.py")
"""

from __future__ import annotations

from pathlib import Path

from folders import BACKEND


def patched_compiler(folder: Path, patch: str) -> Path:
    """Write a program to `folder` that executes `patch` and then is the compiler; returns its file.

    Args:
        folder: where.
        patch: statements.
    """
    compiler = BACKEND / "kernelwheel" / "compiler" / "__main__.py"
    program = folder / "patched_compiler.py"
    program.write_text(f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("compiler_main", {str(compiler)!r})
main = importlib.util.module_from_spec(spec)
spec.loader.exec_module(main)
program = main._import_worker()
{patch}
sys.exit(program.main(sys.argv[1:]))
""")
    return program
