// Strict, and with types: a promise that nobody waits for, or a value of unknown shape, is an error here.
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist/", "src/protocol.ts", "**/*.mjs"] },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: {
      parserOptions: {
        project: ["./tsconfig.json", "./src/webview/tsconfig.json"],
        tsconfigRootDir: import.meta.dirname,
      },
    },
    rules: {
      // The editor's API takes anything with a dispose() for its class Disposable.
      "@typescript-eslint/no-unsafe-class-instance-assignment": "off",
      complexity: ["error", { max: 16, variant: "modified" }],
      "max-lines": ["error", 320],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-floating-promises": ["error", { ignoreVoid: true }],
      "@typescript-eslint/no-confusing-void-expression": [
        "error",
        { ignoreArrowShorthand: true, ignoreVoidReturningFunctions: true },
      ],
    },
  },
  {
    files: ["src/*.ts"],
    ignores: ["src/{extension,environment,editor,host,install,keys,panel,palette,server,status}.ts"],
    rules: {
      "no-restricted-imports": ["error", { paths: [{ name: "vscode", message: "This module is pure." }] }],
    },
  },
  {
    files: ["test/unit/*.ts"],
    // node:test's own functions return promises that its runner waits for.
    rules: { "@typescript-eslint/no-floating-promises": "off", "max-lines": "off" },
  },
);
