/** Runs the tests of this folder with mocha in the editor's extension host. */
import Mocha from "mocha";
import { define } from "./extension";

export function run(): Promise<void> {
  const mocha = new Mocha({ ui: "bdd", color: false, timeout: 30_000 });
  mocha.suite.emit("pre-require", globalThis, "", mocha);
  define();
  return new Promise((resolve, reject) => {
    const runner = mocha.run((failures) => (failures === 0 ? resolve() : reject(new Error(`${failures} failed`))));
    runner.on("pass", (test) => console.log(`TEST pass ${test.fullTitle()}`));
    runner.on("fail", (test, error: Error) => console.log(`TEST fail ${test.fullTitle()}: ${String(error.stack)}`));
  });
}
