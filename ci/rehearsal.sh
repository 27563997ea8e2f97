#!/usr/bin/env bash
# ci/rehearsal.sh first|next VERSION: what users of a release do, by the names alone, from the one index that pip knows;
#   run by ci/rehearse as an ordinary user of a new Debian. `next` goes on where `first` ended, after a later release.
set -euo pipefail
part=$1 version=$2
case $PIP_INDEX_URL in
  http://127.0.0.1:*) ;; # where our names are ours
  *) echo "required: the index of ci/rehearse; found: another; to fix: ci/rehearse" >&2; exit 2 ;;
esac
export UV_DEFAULT_INDEX=$PIP_INDEX_URL
[ -z "${PIP_CERT:-}" ] || export SSL_CERT_FILE=$PIP_CERT
say() { printf '\n-- %s\n' "$*"; }
expect() { [ "$1" = "$2" ] || { echo "required: $1; found: $2" >&2; exit 1; }; }
installed() { "$1/bin/python" -c 'import sys; from importlib.metadata import version; print(version(sys.argv[1]))' "$2"; }
entries() { find "$(~/user/bin/splat cache path)" -name manifest.json | sort; }
unset PIP_FIND_LINKS PIP_EXTRA_INDEX_URL
cd "$(mktemp -d)" # nothing of the checkout

first() {
  rm -rf ~/user ~/tools ~/own ~/project ~/.cache
  render
  package
}

render() {
  say "a picture, from the wheel"
  python3 -m venv ~/user
  ~/user/bin/pip install --quiet splat-kernels
  expect "$version" "$(installed ~/user splat-kernels)"
  SPLAT_JIT=never ~/user/bin/splat render -o wheel.png

  say "the same by kernels that are compiled here; and those for a GPU that the wheel has none for"
  ~/user/bin/pip install --quiet 'splat-kernels[jit]'
  expect "$version" "$(installed ~/user kernelwheel)"
  SPLAT_JIT=always ~/user/bin/splat render -o compiled.png
  cmp wheel.png compiled.png
  TORCH_CUDA_ARCH_LIST=9.0a ~/user/bin/splat cache build --cuda on --only main
}

package() {
  say "a package of one's own, isolated, by pip, uv and build"
  python3 -m venv ~/tools
  ~/tools/bin/pip install --quiet build pipx uv
  make_project
  ~/tools/bin/pip wheel --quiet --no-deps --wheel-dir by-pip ~/project
  ~/tools/bin/uv build --quiet --wheel --out-dir by-uv ~/project
  ~/tools/bin/python -m build --outdir by-build ~/project
  python3 -m venv ~/own
  ~/own/bin/pip install --quiet by-pip/*.whl
  for wheel in by-*/*.whl; do
    ~/own/bin/pip install --quiet --force-reinstall --no-deps "$wheel"
    SOFTCLIP_JIT=never call ~/own
  done

  say "the command without an installation"
  ~/tools/bin/uvx --from splat-kernels splat --version
  ~/tools/bin/pipx run --spec splat-kernels splat --version
}

next() {
  local before
  before=$(entries)
  say "a later release"
  ~/user/bin/pip install --quiet --upgrade splat-kernels
  expect "$version" "$(installed ~/user splat-kernels)"
  SPLAT_JIT=never ~/user/bin/splat render -o wheel.png
  expect "$before" "$(entries)" # what was compiled before is still there

  say "by an earlier kernelwheel, and then the later one alone: what it compiles is for this release"
  SPLAT_JIT=always ~/user/bin/splat render -o compiled.png
  cmp wheel.png compiled.png
  expect 1 "$(entries | grep -c "/$version/")"
  ~/user/bin/pip install --quiet --upgrade 'kernelwheel[jit]'
  expect "$version" "$(installed ~/user kernelwheel)"
  SPLAT_JIT=always ~/user/bin/splat render -o again.png
  cmp wheel.png again.png
  expect 1 "$(entries | grep -c "/$version/")" # found, not compiled again

  say "the wheel that an earlier kernelwheel made, by the later one"
  ~/own/bin/pip install --quiet 'kernelwheel[jit]'
  expect "$version" "$(installed ~/own kernelwheel)"
  SOFTCLIP_JIT=always call ~/own
}

# The package of docs/packaging.md, from its page; kernelwheel by its name, as on the index there is.
make_project() {
  python3 - ~/splat ~/project <<'END'
import re
import runpy
import sys
from pathlib import Path

checkout, project = map(Path, sys.argv[1:])
releases = runpy.run_path(str(checkout / "backend/kernelwheel/runtime/errors.py"))["COMPILERS"]
page = (checkout / "docs/packaging.md").read_text(encoding="utf-8")
for name, text in re.findall(r"(?ms)^\*\*example/(\S+)\*\* .*?^```\w+\n(.*?)^```$", page):
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text(re.sub(r"(kernelwheel\[cuda\]) @ [^\"]+", rf"\1{releases}", text), encoding="utf-8")
END
}

# A call of that package in an environment.
call() { "$1/bin/python" -c 'import softclip, torch; assert softclip.softclip(torch.ones(3)).tolist() == [0.5] * 3'; }

"$part"
