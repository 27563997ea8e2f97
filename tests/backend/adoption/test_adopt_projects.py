"""`adopt` on the projects of tests/packages/setup_scripts: what it writes, what it names, and what it leaves behind."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from folders import BACKEND, PACKAGES
from kernelwheel.adoption.checkout import lines_about_extensions
from kernelwheel.adoption.project_copy import copied
from kernelwheel.adoption.project_metadata import people, requirements
from kernelwheel.adoption.pyproject_text import add_tables
from kernelwheel.adoption.wheel_differences import wheel_differences
from kernelwheel.packing.module_files import top_level
from processes import run
from setup_projects import BUILD_SYSTEM, IMPORTS, MODULE, REMOVE, adopt, lay_out, notes_of, parsed_toml

pytestmark = pytest.mark.once
slow = pytest.mark.slow

SCRIPTS = PACKAGES / "setup_scripts"


def files_of(folder: Path) -> dict[str, bytes | str]:
    """What is in a folder besides git's; links by where they lead."""
    found = [path for path in folder.rglob("*") if ".git" not in path.parts and (path.is_file() or path.is_symlink())]
    return {
        path.relative_to(folder).as_posix(): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in found
    }


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A copy of one of the projects, in which nothing may have changed at the end, unless a test takes it over."""
    given: dict[Path, dict[str, bytes | str]] = {}

    def copy(name: str, kept: bool = True) -> Path:
        folder = shutil.copytree(SCRIPTS / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        if kept:
            given[folder] = files_of(folder)
        return folder

    yield copy
    assert all(files_of(folder) == files for folder, files in given.items())


def commit_all(folder: Path) -> None:
    git = ("git", "-c", "user.name=A", "-c", "user.email=a@example.invalid")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "All")):
        run([*git, *words], cwd=folder)


@slow
def test_all_that_setup_takes_is_in_the_tables_and_the_wheel_is_the_same(project: Callable[..., Path]) -> None:
    folder = project("everything", kept=False)
    commit_all(folder)

    checked, done = adopt(folder, "--check"), adopt(folder, "--write")

    written = (folder / "pyproject.toml").read_text()
    tables = parsed_toml(written)
    assert str(folder) not in written
    assert tables["project"] == {
        "name": "Every.Thing", "version": "3.1.4", "description": "Everything that setup() takes",
        "readme": "README.md", "requires-python": ">=3.8, <4", "license": "MIT",
        "authors": [
            {"name": "Ada Lovelace", "email": "ada@example.invalid"},
            {"name": "Charles Babbage", "email": "charles@example.invalid"},
        ],
        "maintainers": [{"name": "Grace Hopper"}], "keywords": ["one", "two words"],
        "classifiers": ["Programming Language :: Python :: 3"],
        "dependencies": ["numpy", 'tomli; python_version < "3.11"', "pywin32; os_name=='nt'"],
        "urls": {
            "Homepage": "https://example.invalid/everything", "Source": "https://example.invalid/source",
            "Download": "https://example.invalid/everything.tar.gz",
        },
        "optional-dependencies": {
            "Test_All": ["pytest>=8", 'colorama; sys_platform == "win32"'], "dev": ["black; python_version<'3.12'"],
        },
        "scripts": {"everything": "everything.tools:main"},
        "gui-scripts": {"everything-window": "everything.tools:main"},
        "entry-points": {"everything.plugins": {"first": "everything.tools:main"}},
    }  # fmt: skip
    assert tables["tool"]["setuptools"] == {
        "packages": ["everything", "everything.tools"], "package-dir": {"": "src"}, "platforms": ["linux"],
        "package-data": {"everything": ["data/*.json", "data/table.csv"]}, "script-files": ["bin/everything-old"],
        "exclude-package-data": {"everything": ["data/secret.json"]}, "include-package-data": False,
        "data-files": {"share/everything": ["share/notes.txt"]},
    }  # fmt: skip
    assert (checked.stdout, checked.returncode) == ("", 0)
    assert "setup.py is removed: all of it is in pyproject.toml, and git has it" in done.stderr
    assert not (folder / "setup.py").exists()
    assert done.returncode == 0


@slow
def test_the_comparison_finds_what_a_change_to_the_script_would_lose(project: Callable[..., Path]) -> None:
    """setup.py builds its wheel with what adopt does not know of: an own class of distribution that packs more."""
    folder = project("everything", kept=False)
    script = (folder / "setup.py").read_text()
    more = (
        "from setuptools import Distribution\n\n\nclass Mine(Distribution):\n"
        "    def run_command(self, name):\n"
        "        if name == 'bdist_wheel':\n"
        "            self.package_data = {'everything': ['*.txt', 'data/open.json', 'data/table.csv']}\n"
        "            self.metadata.keywords = ['three']\n"
        "        super().run_command(name)\n\n\n"
    )
    (folder / "src/everything/version.txt").write_text("3.1.4\n")
    (folder / "setup.py").write_text(more + script.replace("setup(\n", "setup(\n    distclass=Mine,\n", 1))

    checked, printed = adopt(folder, "--check"), adopt(folder)

    assert checked.stdout.splitlines() == [
        "Keyword three: in setup.py's wheel alone",
        "Keyword one: in kernelwheel's wheel alone",
        "Keyword two words: in kernelwheel's wheel alone",
        "file everything/version.txt: in setup.py's wheel alone",
    ]
    assert "not translated: file everything/version.txt: in setup.py's wheel alone\n" in printed.stderr
    assert "note: then remove setup.py, or from it lines " in printed.stderr
    assert (checked.returncode, printed.returncode) == (1, 1)


@slow
def test_a_licence_that_is_no_expression_and_a_readme_that_is_no_file(tmp_path: Path) -> None:
    script = """
setup(name="texts", version="1", packages=["texts"], long_description="*Hello*", license=open("MINE").read(),
      long_description_content_type="text/x-rst", license_files=["MINE"], author="A and B", author_email="a@x.invalid",
      ext_modules=[CppExtension("texts._C", ["ext.cpp"])])
"""
    files = {
        "setup.py": IMPORTS + script,
        "ext.cpp": MODULE,
        "texts/__init__.py": "",
        "MINE": "Do as\n\nyou like.\n",
    }

    done = adopt(lay_out(tmp_path / "texts", files))

    tables = parsed_toml(done.stdout)
    assert tables["project"] == {
        "name": "texts", "version": "1", "readme": {"text": "*Hello*", "content-type": "text/x-rst"},
        "license": {"file": "MINE"}, "authors": [{"name": "A"}, {"name": "B"}, {"email": "a@x.invalid"}],
    }  # fmt: skip
    assert tables["tool"]["setuptools"]["license-files"] == ["MINE"]
    assert (notes_of(done), done.returncode) == ([REMOVE], 0)


@slow
def test_links_that_pip_ignores_are_said_and_keep_nothing_from_being_translated(tmp_path: Path) -> None:
    script = """
setup(name="linked", version="1", packages=["linked"], dependency_links=["https://example.invalid/wheels"],
      ext_modules=[CppExtension("linked._C", ["ext.cpp"])])
"""
    files = {"setup.py": IMPORTS + script, "ext.cpp": MODULE, "linked/__init__.py": ""}

    done = adopt(lay_out(tmp_path / "linked", files))

    assert notes_of(done) == [
        "note: dependency_links are left out, since pip ignores them: https://example.invalid/wheels",
        REMOVE,
    ]
    assert done.returncode == 0


@slow
def test_no_path_of_this_machine_gets_into_the_tables(tmp_path: Path) -> None:
    script = """
here = os.path.dirname(os.path.abspath(__file__))
setup(name="placed", version="1", packages=["placed"], data_files=[("/etc/placed", ["a.txt"])],
      package_dir={"placed": "/elsewhere/placed"}, install_requires=[f"x @ file://{here}/x"],
      package_data={"placed": ["/elsewhere/b.txt", os.path.join(here, "a.txt")]},
      ext_modules=[CppExtension("placed._C", ["ext.cpp"])])
"""
    folder = lay_out(tmp_path / "placed", {"setup.py": IMPORTS + script, "ext.cpp": MODULE, "a.txt": ""})

    done = adopt(folder)

    assert "/elsewhere" not in done.stdout
    assert "/etc" not in done.stdout
    assert str(tmp_path) not in done.stdout
    assert [line for line in notes_of(done) if "nothing is compared" not in line][:4] == [
        f"not translated: 'x @ file://{folder}/x' names a folder of this machine",
        "not translated: package_dir['placed'] is a folder of this machine, /elsewhere/placed",
        "not translated: package_data of placed: /elsewhere/b.txt names a place on this machine",
        "not translated: data_files: /etc/placed: a.txt names a place on this machine",
    ]
    assert done.returncode == 1


@slow
def test_files_that_setup_makes_are_named_and_none_is_left(project: Callable[..., Path]) -> None:
    folder = project("maker")
    commit_all(folder)

    done = adopt(folder)

    assert notes_of(done)[:3] == [
        "not translated: setup.py makes maker/version.py, which is in its wheel: keep that file in the checkout",
        "not translated: setup.py makes the link maker/configs, with 2 files of its wheel: keep it, "
        "ln -s ../configs maker/configs",
        "note: setup.py makes notes-of-the-build.txt, which is not in its wheel",
    ]
    assert done.returncode == 1
    assert run(["git", "status", "--short"], cwd=folder).stdout == ""


@slow
def test_write_takes_the_extensions_out_of_a_script_that_does_something_else(project: Callable[..., Path]) -> None:
    folder = project("maker", kept=False)
    requires = "[build-system]\nrequires = ['setuptools', 'numpy', 'torch==2.4.0']\n"
    commit_all(lay_out(folder, {"pyproject.toml": requires}))
    before = {*files_of(folder)}

    done = adopt(folder, "--write")

    assert notes_of(done)[1:] == [
        "note: [build-system] requires no longer has torch==2.4.0, but torch>=2.10",
        "note: setup.py stays for what else it does, without its extensions and what only these used; the wheel is the "
        "same, and git has it as it was",
    ]
    assert done.returncode == 0
    script = (SCRIPTS / "maker/setup.py").read_text()
    gone = ("from torch", "    ext_modules", "    cmdclass")
    left = "".join(line for line in script.splitlines(keepends=True) if not line.startswith(gone))
    assert (folder / "setup.py").read_text() == left
    tables = parsed_toml((folder / "pyproject.toml").read_text())
    assert tables["build-system"]["requires"] == ["kernelwheel", "torch>=2.10", "numpy"]
    assert list(tables) == ["build-system", "tool"], "setup.py says the rest"
    assert tables["tool"] == {
        "kernelwheel": {
            "extension": [{"name": "maker._C", "kind": "module", "sources": ["csrc/ext.cpp"], "cuda": "none"}]
        }
    }
    assert {*files_of(folder)} == before


@slow
def test_a_script_with_a_build_ext_of_its_own_is_left_as_it_is(tmp_path: Path) -> None:
    script = """
class Mine(BuildExtension):
    pass
setup(name="own", version="1", packages=["own"], cmdclass={"build_ext": Mine},
      ext_modules=[CppExtension("own._C", ["ext.cpp"])])
"""
    folder = lay_out(tmp_path / "own", {"setup.py": IMPORTS + script, "ext.cpp": MODULE, "own/__init__.py": ""})

    done = adopt(folder, "--write")

    assert (folder / "setup.py").read_text() == IMPORTS + script
    assert "not translated: setup.py has its own build_ext: Mine; what it does is not carried over" in done.stderr
    assert "note: then remove setup.py, or from it lines " in done.stderr
    assert done.returncode == 1


@slow
def test_with_the_files_kept_as_it_says_nothing_is_lost(project: Callable[..., Path]) -> None:
    """Also those that setup.py writes again, as they are."""
    folder = project("maker", kept=False)
    (folder / "maker/configs").symlink_to("../configs")
    (folder / "maker/version.py").write_text("__version__ = '1.0'\ncommit = 'unknown'\n")

    done = adopt(folder, "--write")

    assert notes_of(done)[1:] == [
        "note: setup.py makes notes-of-the-build.txt, which is not in its wheel",
        "note: setup.py is now setup.py.old: all of it is in pyproject.toml, and nothing uses it any more",
    ]
    assert done.returncode == 0


@slow
def test_a_script_that_gives_up_without_a_gpu_is_told_that_there_is_one(project: Callable[..., Path]) -> None:
    done = adopt(project("gpu_asker"))

    (extension,) = parsed_toml(done.stdout)["tool"]["kernelwheel"]["extension"]
    assert extension == {
        "name": "gpu_asker._C", "kind": "module", "sources": ["ext.cpp"], "cxx-flags": ["-DMIN_ARCH=90"],
        "cuda": "required",
    }  # fmt: skip
    assert "archs" not in parsed_toml(done.stdout)["tool"]["kernelwheel"]
    assert "note: setup.py asked for that GPU's compute capability, 9.0: check -DMIN_ARCH=90" in notes_of(done)
    assert done.returncode == 0


@slow
def test_packages_by_their_folders_are_translated_and_a_file_finder_of_this_environment_is_not_asked(
    tmp_path: Path,
) -> None:
    """With setuptools-scm beside it, setuptools packs what git has; an isolated build does so only if asked."""
    script = """
setup(name="slashed", version="1", packages=["slashed", "slashed/functions"], include_package_data=True,
      package_data={"slashed/functions": ["table.txt"]}, ext_modules=[CppExtension("slashed._C", ["ext.cpp"])])
"""
    names = ("slashed/__init__.py", "slashed/functions/__init__.py", "slashed/functions/table.txt", "slashed/note.txt")
    files = {"setup.py": IMPORTS + script, "ext.cpp": MODULE, **dict.fromkeys(names, "")}
    finder = lay_out(
        tmp_path / "finder",
        {
            "a_finder.py": "def files(place=''):\n    return ['slashed/note.txt']\n",
            "a_finder-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: A_finder\nVersion: 1\n",
            "a_finder-1.dist-info/entry_points.txt": "[setuptools.file_finders]\nx = a_finder:files\n",
        },
    )
    folder = lay_out(tmp_path / "slashed", files)
    path = {"PYTHONPATH": f"{BACKEND}:{finder}"}

    unasked = adopt(folder, **path)
    lay_out(folder, {"pyproject.toml": "[build-system]\nrequires = ['setuptools', 'a-finder']\n"})
    asked = adopt(folder, **path)

    assert parsed_toml(unasked.stdout)["tool"]["setuptools"] == {
        "packages": ["slashed", "slashed.functions"], "package-data": {"slashed.functions": ["table.txt"]},
    }  # fmt: skip
    assert (notes_of(unasked), unasked.returncode) == ([REMOVE], 0)
    assert "not translated: file slashed/note.txt: in setup.py's wheel alone" in notes_of(asked)
    assert asked.returncode == 1


@slow
def test_tables_that_setuptools_refuses_are_told_by_their_key(tmp_path: Path) -> None:
    script = """
setup(name="odd", version="1", packages=["a b"], package_dir={"a b": "a"},
      ext_modules=[CppExtension("odd._C", ["ext.cpp"])])
"""

    done = adopt(lay_out(tmp_path / "odd", {"setup.py": IMPORTS + script, "ext.cpp": MODULE, "a/__init__.py": ""}))

    (said,) = (line for line in notes_of(done) if "does not build with these tables" in line)
    assert "configuration error: `tool.setuptools.packages`" in said
    assert "{" not in said, "no schema"


@slow
def test_sources_above_and_a_missing_submodule_are_said_with_what_to_do(project: Callable[..., Path]) -> None:
    folder = project("above")
    commit_all(folder)

    done = adopt(folder / "bindings")

    assert [line for line in notes_of(done) if "outside" in line] == [
        "not translated: sources outside of the folder of setup.py, which no sdist has: 1; build from a folder "
        "above, ..: put pyproject.toml there, begin its paths with bindings/, those of the sources without ../, and "
        'set package-dir = { "" = "bindings" } in [tool.setuptools]'
    ]
    assert (
        "not translated: the git submodule third_party/vectors is not there: git submodule update --init "
        "third_party/vectors, and run adopt again" in notes_of(done)
    )
    assert "note: git submodules that are not there, and that no extension names: third_party/pictures" in notes_of(
        done
    )
    assert parsed_toml(done.stdout)["project"]["version"] == "2.5"
    assert done.returncode == 1


SWITCHED = """
extensions = []
if os.getenv("SWITCHED_BUILD", "FALSE") == "TRUE" or "--cpp_ext" in sys.argv:
    extensions.append(CppExtension("switched._C", ["ext.cpp"]))
os.environ.get("HOME"), dict(os.environ)
setup(name="switched", version="1", packages=[], ext_modules=extensions)
"""


@slow
def test_without_extensions_the_switches_are_named_and_can_be_set(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "switched", {"setup.py": f"import sys\n{IMPORTS}{SWITCHED}", "ext.cpp": MODULE})

    without, word = adopt(folder), adopt(folder, "--setup-argument=--cpp_ext")
    variable = adopt(folder, SWITCHED_BUILD="TRUE")

    assert "no ext_modules; setup.py looked for variables that are not set: SWITCHED_BUILD\n" in without.stderr
    assert "and for words of its command line: --cpp_ext\n" in without.stderr
    assert "adopt --setup-argument=--cpp_ext" in without.stderr
    assert without.returncode == 1
    assert notes_of(word) == notes_of(variable) == [REMOVE]
    assert (word.returncode, variable.returncode) == (0, 0)


@slow
def test_a_script_that_wants_pkg_resources_is_told_which_setuptools_has_it(tmp_path: Path) -> None:
    script = """
import sys
class Nowhere:  # as after setuptools 81
    def find_spec(self, name, path=None, target=None):
        if name == "pkg_resources":
            raise ModuleNotFoundError("No module named 'pkg_resources'")
sys.modules.pop("pkg_resources", None)
sys.meta_path.insert(0, Nowhere())
import pkg_resources
"""

    done = adopt(lay_out(tmp_path / "old", {"setup.py": script}))

    assert "pip install 'setuptools<82', which has pkg_resources" in done.stderr
    assert done.returncode == 1


@slow
def test_what_setup_writes_beside_the_project_is_refused(tmp_path: Path) -> None:
    """The copy has links to what is beside the project."""
    script = f"{IMPORTS}open('../shared/made.txt', 'w').write('')\nsetup(name='x')\n"
    lay_out(tmp_path / "repository", {"shared/kept.txt": "kept", "part/setup.py": script})
    commit_all(tmp_path / "repository")

    done = adopt(tmp_path / "repository/part")

    assert "PermissionError: [Errno 13] setup.py is only read, and may not write here: " in done.stderr
    assert [path.name for path in (tmp_path / "repository/shared").iterdir()] == ["kept.txt"]


def test_a_copy_is_whole_and_can_be_changed_without_changing_the_project(tmp_path: Path) -> None:
    folder = lay_out(
        tmp_path / "repository",
        {"part/a.txt": "a", "part/same.txt": "s", "part/.venv/pyvenv.cfg": "", "other/b.txt": "b"},
    )
    (folder / "part/link").symlink_to("a.txt")
    (folder / "part/out").symlink_to("../other/b.txt")
    commit_all(folder)
    before = files_of(folder)

    with copied(folder / "part") as copy:
        assert (copy.project / "link").read_text() == "a"
        assert (copy.project / "out").read_text() == (copy.project / "../other/b.txt").read_text() == "b"
        assert not (copy.project / ".venv").exists()
        state = copy.state()
        (copy.project / "a.txt").write_text("other")
        (copy.project / "made.txt").write_text("")
        (copy.project / "new").symlink_to("a.txt")
        (copy.project / "same.txt").write_text((copy.project / "same.txt").read_text())
        made = copy.made(state)
        head = run(["git", "rev-parse", "HEAD"], cwd=copy.project).stdout
        run(["git", "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qam", "More"], cwd=copy.project)
        assert copy.as_original(f'"{copy.project}/x"') == f'"{folder}/part/x"'

    assert made == {"a.txt": "", "made.txt": "", "new": "a.txt"}
    assert run(["git", "rev-parse", "HEAD"], cwd=folder).stdout == head
    assert run(["git", "status", "--short", "-uno"], cwd=folder).stdout == ""
    assert files_of(folder) == before
    assert not copy.root.exists()


METADATA = """\
Metadata-Version: 2.4
Name: a_b
Version: 1
Home-page: https://example.invalid
Author: Ada, Grace
Author-email: ada@example.invalid
License: MIT
Classifier: License :: OSI Approved :: MIT License
Requires-Python: >=3.8,<4
Requires-Dist: x; extra == "t" and (python_version < "3.11")
Provides-Extra: t

# Read me
"""
SAME = """\
Metadata-Version: 2.4
Name: a-b
Version: 1
Project-URL: Homepage, https://example.invalid
Author: Grace
Author-email: Ada <ada@example.invalid>
License-Expression: MIT
Requires-Python: <4, >=3.8
Description-Content-Type: text/markdown
Requires-Dist: x; python_version < "3.11" and extra == "t"
Provides-Extra: t

# Read me
"""


def a_wheel(metadata: str, **changes: Any) -> dict[str, Any]:
    about = {"METADATA": metadata, "top_level.txt": "a\nb\n", "entry_points.txt": "[console_scripts]\nx = a:b\n"}
    return {"about": about, "files": {"a/__init__.py": "1"}, "licences": ["licenses/LICENSE"], **changes}


def test_the_same_said_in_other_words_is_no_difference() -> None:
    assert list(wheel_differences(a_wheel(METADATA), a_wheel(SAME))) == []


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("Name: a-b", "Name: ab", "Name: a_b in setup.py's wheel, ab in kernelwheel's"),
        ("Version: 1", "Version: 2", "Version: 1 in setup.py's wheel, 2 in kernelwheel's"),
        ("Homepage, https", "Homepage, http", "URL https://example.invalid: in setup.py's wheel alone"),
        ("Author: Grace\n", "", "Author Grace: in setup.py's wheel alone"),
        ("License-Expression: MIT\n", "", "License MIT: in setup.py's wheel alone"),
        ("<4, >=3.8", "<4", "Requires-Python: >=3.8,<4 in setup.py's wheel, <4 in kernelwheel's"),
        ("3.11", "3.12", 'Requires-Dist x and extra == "t" and python_version < "3.11": in setup.py\'s wheel alone'),
        ("Provides-Extra: t\n", "", "Provides-Extra t: in setup.py's wheel alone"),
        ("# Read me", "# Read", "the description (readme) is another text"),
        ("Version: 1", "Version: 1\nClassifier: X :: Y", "Classifier X :: Y: in kernelwheel's wheel alone"),
        ("Version: 1", "Version: 1\nKeywords: k", "Keyword k: in kernelwheel's wheel alone"),
        ("Version: 1", "Version: 1\nPlatform: p", "Platform p: in kernelwheel's wheel alone"),
    ],
)
def test_each_field_of_the_metadata_is_compared(old: str, new: str, difference: str) -> None:
    assert old in SAME
    found = list(wheel_differences(a_wheel(METADATA), a_wheel(SAME.replace(old, new))))

    assert difference in found


def test_a_home_page_that_is_the_download_too_is_one_address() -> None:
    home = "Home-page: https://example.invalid\n"
    theirs = METADATA.replace(home, f"{home}Download-URL: https://example.invalid\nProject-URL: S, https://s\n")
    ours = "Project-URL: Homepage, https://example.invalid\n"
    more = f"{ours}Project-URL: Download, https://example.invalid\nProject-URL: S, https://s\n"

    assert list(wheel_differences(a_wheel(theirs), a_wheel(SAME.replace(ours, more)))) == []
    assert list(wheel_differences(a_wheel(theirs), a_wheel(SAME.replace(ours, more.replace("S, ", "T, "))))) != []


def test_files_and_what_is_beside_the_metadata_are_compared() -> None:
    about = {"METADATA": SAME, "top_level.txt": "a\n", "entry_points.txt": ""}
    other = a_wheel(SAME, about=about, files={"a/__init__.py": "2", "b-1.data/scripts/x": "3"}, licences=[])

    assert list(wheel_differences(a_wheel(METADATA), other)) == [
        "entry_points.txt console_scripts: x = a:b: in setup.py's wheel alone",
        "top_level.txt b: in setup.py's wheel alone",
        "licence file licenses/LICENSE: in setup.py's wheel alone",
        "file *.data/scripts/x: in kernelwheel's wheel alone",
        "the file a/__init__.py has other contents",
    ]


@pytest.mark.parametrize(
    ("names", "addresses", "found"),
    [
        (None, None, []),
        ("Ada", "a@x", [{"name": "Ada", "email": "a@x"}]),
        ("Ada and Bob", "a@x", [{"name": "Ada"}, {"name": "Bob"}, {"email": "a@x"}]),
        ("Ada, Bob", "a@x, b@x", [{"name": "Ada", "email": "a@x"}, {"name": "Bob", "email": "b@x"}]),
        (None, "Ada <a@x>", [{"name": "Ada", "email": "a@x"}]),
        ("Bob", '"Ada L." <a@x>', [{"name": "Bob"}, {"name": "Ada L.", "email": "a@x"}]),
    ],
)
def test_names_and_addresses_become_persons(names: str | None, addresses: str | None, found: list[Any]) -> None:
    assert people(names, addresses) == found


def test_conditions_in_the_keys_of_extras_become_markers() -> None:
    always, extras = requirements({
        ":a == '1' or b": ["x", "y; c"], "e": "p\nq", "e:d": ["r @ https://h/r"], "f:": [],
    })  # fmt: skip

    assert always == ["x; a == '1' or b", "y; (c) and (a == '1' or b)"]
    assert extras == {"e": ["p", "q", "r @ https://h/r ; d"], "f": []}


def test_the_lines_to_delete_are_those_about_extensions(tmp_path: Path) -> None:
    script = tmp_path / "setup.py"
    script.write_text(
        "from setuptools import setup\next_modules = []\nif 1:\n    ext_modules.append(\n        2)\n"
        "setup(name='x',\n      ext_modules=ext_modules, version='1',\n      cmdclass={\n      'build_ext': 3})\n"
    )

    assert lines_about_extensions(script) == [
        "2 (ext_modules = [])", "4-5 (ext_modules.append()", "7 (ext_modules=ext_modules, version='1',)",
        "8-9 (cmdclass={)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '[project]\nname = "x" # a\ndynamic = ["version", "readme"]\n\n[project.urls]\nA = "b"\n\n# end\n[x]\n',
            '[project]\nname = "x" # a\ndynamic = ["readme"]\nversion = "2"\n\n[project.urls]\nA = "b"\n\n# end\n[x]\n',
        ),
        (
            '[project]\ndynamic = ["version"]\n[tool.setuptools]\nzip-safe = false\n[tool.setuptools.dynamic]\nz = 1\n',
            '[project]\ndynamic = []\nversion = "2"\n[tool.setuptools]\nzip-safe = false\npackages = ["p"]\n\n'
            "[tool.setuptools.dynamic]\nz = 1\n",
        ),
    ],
)
def test_keys_are_added_to_tables_that_are_there(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(before)
    setuptools = {"setuptools": {"packages": ["p"]}} if "setuptools" in before else {}

    add_tables(
        path,
        {
            "build-system": BUILD_SYSTEM,
            "project": {"version": "2"},
            "tool": {**setuptools, "kernelwheel": {"archs": "9.0"}},
        },
    )

    text = path.read_text()
    assert after in text
    assert text.endswith('\n[tool.kernelwheel]\narchs = "9.0"\n')
    assert parsed_toml(text)["build-system"] == BUILD_SYSTEM


def test_the_top_level_has_the_names_of_extensions() -> None:
    assert top_level("a\n", "a", ["a._C", "b_cuda"]) == "a\nb_cuda\n"
    assert top_level("\n", "c", ["c._C"]) == "c\n"
