#!/usr/bin/env bash
# Writes torch.txt, cuda.txt, demo.txt and all.txt anew: exact versions with sha256 hashes of everything that `make venv` installs.
# Needs uv (pip install uv). Versions move only where versions.txt or pyproject.toml asks for it.
#   torch.txt  PyTorch and what all of its builds need    cuda.txt  what only the CUDA build needs    all.txt  the rest
#   demo.txt   those of all.txt that `make demo` needs
#   docs.txt   what `make docs` installs into an environment of its own
# torch-cpu.txt names the CPU build, models.txt packages that carry weights, uv.txt the installer; all are written by hand.
#   overrides.txt  versions that a package's own bounds refuse and that work with it
set -euo pipefail
cd "$(dirname "$0")"
extras=(mlflow wandb minilm gguf evaluate zh flops compression eviction adapters raptor retrieval ray documents test lint)
compile=(uv pip compile --quiet --generate-hashes --python-version 3.11 --python-platform x86_64-manylinux_2_28
  --constraint versions.txt --override overrides.txt --no-header --no-annotate)

cuda=$("${compile[@]}" - <<<"torch" | sed -n 's/^\(nvidia-[a-z0-9-]*\|cuda-[a-z-]*\|triton\)==.*/\1/p')
skip=()
for name in $cuda; do skip+=(--no-emit-package "$name"); done
"${compile[@]}" "${skip[@]}" - <<<"torch" >torch.new
base=$(sed -n 's/^\([a-z0-9-]*\)==.*/\1/p' torch.new)
"${compile[@]}" $(for name in $base; do echo --no-emit-package "$name"; done) - <<<"torch" >cuda.new
rest=("${compile[@]}" "${skip[@]}")
for name in $base; do rest+=(--no-emit-package "$name"); done
"${rest[@]}" $(for extra in "${extras[@]}"; do echo --extra "$extra"; done) ../pyproject.toml >all.new
sed -n 's/^\([a-z0-9.-]*==[^ ]*\).*/\1/p' all.new >pins.new
"${rest[@]}" --constraint pins.new --extra mlflow --extra minilm ../pyproject.toml >demo.new
rm pins.new
printf "%s\n" mkdocs-material mkdocstrings-python | "${compile[@]}" - >docs.new
sed -i 's/^\([a-z0-9-]*==[^ ]*\) /\1 ; sys_platform == "linux" /' cuda.new
# The CPU build for Python 3.11 on Linux has a version of its own, which not every index carries.
version=$(sed -n 's/^torch==\([^ ]*\).*/\1/p' torch.new)
grep -A2 "^torch==$version+cpu" torch-cpu.txt >/dev/null || { echo "torch-cpu.txt: write the hash of torch $version+cpu" >&2; exit 1; }
for name in torch cuda demo all docs; do mv "$name.new" "$name.txt"; done
