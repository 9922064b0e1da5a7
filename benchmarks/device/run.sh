#!/bin/bash
# Proves a device in at most 8 minutes: parity, exactness table, contract kit, costs and gains at real widths.
#
#   run.sh --out DIR [--wheels DIR] [--library FILE] [--zoo DIR] [--small] [--budget-s N]
#
# --wheels   wheels of power-core, power-native (built with CUDA), the plugins and what they need; installed without a
#            network into a scratch folder. Without it the current Python must import power already.
# --library  a built libpower_native.so that replaces the installed one
# --zoo      folder with target.gguf and DRAFTKIND.gguf files; without it random-weight models stand in for the parity
# --small    dry run with small shapes, on any machine
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
arguments=()
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

usage() { sed -n '2,12s/^# \{0,1\}//p' "$0"; }

while [ $# -gt 0 ]; do
    case $1 in
    --wheels)
        "$python" -m pip install --quiet --no-index --find-links "$2" --target "$scratch/site" "$2"/*.whl
        export PYTHONPATH="$scratch/site${PYTHONPATH:+:$PYTHONPATH}"
        shift 2
        ;;
    --library) export POWER_NATIVE_LIBRARY=$2; shift 2 ;;
    --zoo)
        arguments+=(--target "$2/target.gguf")
        for kind in dflash dflash2 dspark; do
            if [ -e "$2/$kind.gguf" ]; then arguments+=(--draft "$kind=$2/$kind.gguf"); fi
        done
        shift 2
        ;;
    --help) usage; exit 0 ;;
    --out | --budget-s) arguments+=("$1" "$2"); shift 2 ;;
    --small) arguments+=("$1"); shift ;;
    *) echo "run.sh: unknown argument '$1'; see --help" >&2; exit 2 ;;
    esac
done

# A library that is named by --library finds the CUDA runtime of this Python's wheels, wherever it lies.
cuda=$("$python" -c 'import glob, site
print(":".join(path for root in site.getsitepackages() for path in glob.glob(root + "/nvidia/cu*/lib")))')
export LD_LIBRARY_PATH="$cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

cd "$here"
"$python" main.py --scratch "$scratch" "${arguments[@]}"
