"""Which `build_ext` of a setup.py only reports on a build, so that nothing is lost without it."""

from __future__ import annotations

import pytest
from kernelwheel.adoption.reporting_commands import only_reports

QUIET = {
    "prints": """
class Mine(BuildExtension):
    \"\"\"Ours.\"\"\"
    def build_extensions(self):
        print(f"{len(self.extensions)} extensions", flush=True)
        super().build_extensions()
""",
    "takes the time": """
class Mine(torch.utils.cpp_extension.BuildExtension):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, use_ninja=False, **kwargs)
        self._done = 0
    def run(self):
        begin = time.time()
        try:
            super().run()
        finally:
            print("%.1f s" % (time.time() - begin))
    def build_extension(self, ext):
        self._done += 1
        sys.stdout.write(f"[{self._done}] {ext.name}\\n")
        return super().build_extension(ext)
""",
    "one after another": """
class Mine(BuildExtension):
    def build_extensions(self):
        os.environ["MAX_JOBS"] = str(os.cpu_count())
        for number, ext in enumerate(self.extensions):
            self.announce(f"{number}", level=2)
            self.build_extension(ext)
""",
    "a bar": """
class Mine(BuildExtension):
    def build_extensions(self):
        with tqdm(total=len(self.extensions)) as bar:
            original = self.compiler.spawn
            def spawn(*args, **kwargs):
                bar.update(1)
                return original(*args, **kwargs)
            self.compiler.spawn = spawn
            super().build_extensions()
""",
}
LOUD = {
    "adds a flag": """
class Mine(BuildExtension):
    def build_extensions(self):
        for ext in self.extensions:
            ext.extra_compile_args["nvcc"].append("-O3")
        super().build_extensions()
""",
    "sets a flag": """
class Mine(BuildExtension):
    def build_extension(self, ext):
        ext.libraries = ["z"]
        super().build_extension(ext)
""",
    "adds one on the way": """
class Mine(BuildExtension):
    def build_extensions(self):
        original = self.compiler.spawn
        def spawn(command):
            return original(command + ["-O3"])
        self.compiler.spawn = spawn
        super().build_extensions()
""",
    "generates sources": """
class Mine(BuildExtension):
    def run(self):
        subprocess.check_call(["python", "generate.py"])
        super().run()
""",
    "lets errors pass": """
class Mine(BuildExtension):
    def run(self):
        try:
            super().run()
        except Exception as error:
            print(error)
""",
    "builds nothing": "class Mine(BuildExtension):\n    def build_extensions(self):\n        print('no')\n",
    "builds at times": """
class Mine(BuildExtension):
    def run(self):
        if os.getenv("BUILD"):
            super().run()
""",
    "sets a variable": """
class Mine(BuildExtension):
    def run(self):
        os.environ["CXX"] = "clang++"
        super().run()
""",
    "includes": """
class Mine(BuildExtension):
    def finalize_options(self):
        super().finalize_options()
        self.include_dirs.append("x")
""",
    "another name": """
class Mine(BuildExtension):
    def get_ext_filename(self, name):
        return super().get_ext_filename(name).replace(".cpython", "")
""",
    "from elsewhere": "from mine import Mine\n",
    "a base from elsewhere": "class Mine(Base):\n    pass\n",
    "a base that does more": """
class Base(BuildExtension):
    def run(self):
        generate()
        super().run()
class Mine(Base):
    pass
""",
    "itself": "class Mine(Mine):\n    pass\n",
}


@pytest.mark.parametrize("text", QUIET.values(), ids=QUIET)
def test_a_command_that_only_reports(text: str) -> None:
    assert only_reports(text.encode(), "Mine")


@pytest.mark.parametrize("text", LOUD.values(), ids=LOUD)
def test_a_command_that_does_more(text: str) -> None:
    assert not only_reports(text.encode(), "Mine")
